//! `RunView`: the position of a run, for observers.
//!
//! The view of a stored run is read from its store, without a driver. The view of an in-memory run
//! comes from its engine.

use crate::control::Command;
use crate::log::failure::failure_of;
use crate::log::message::SIGNAL;
use crate::log::open;
use crate::log::visit::{OpenWait, VisitRecordBody};
use crate::store::{
    Fork, GraphVersion, InboxMessage, Kind, LiveToken, Place, REFUSED_MAX, Record, RefusalCause, RefusedMessage, RunFailure,
    RunStatus, Store, StoreError, Tags, Timestamp,
};
use crate::token::WaitView;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};

/// The most attempts to read a view. An attempt fails if the run prunes the records meanwhile.
const READS_MAX: usize = 4;

/// The position of a run: status, counts and tokens.
///
/// For a stored run it shows durable data only, whether or not a driver executes the run.
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
/// use pleach::durable::{RunRemote, RunView};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = Graph::<u32>::new("adding")
/// #     .add_node("ask", |cx: NodeContext, n: u32| async move {
/// #         Ok::<_, String>(n + cx.interrupt::<u32>("more", "how many?").await)
/// #     })
/// #     .add_edge("ask", END).set_entry("ask").compile()?;
/// let store = MemoryStore::new();
/// // The run pauses at its interrupt.
/// graph.run(40).id("sum").checkpoint(&store).await.unwrap_err();
///
/// let view: RunView = RunRemote::new(&store, "sum").view().await?;
/// assert_eq!((view.graph.as_str(), view.is_paused), ("adding", false));
/// assert_eq!(view.tokens[0].state.as_deref(), Some("40"));
/// for wait in view.waits() {
///     assert_eq!((wait.key.as_str(), wait.question.as_deref()), ("more", Some("\"how many?\"")));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunView {
    /// The id of the run, unique in its store.
    pub run: String,
    /// The name of the graph that the run executes.
    pub graph: String,
    /// The version of that graph, with which the run was stored. An in-memory run has schema 0.
    pub version: GraphVersion,
    /// The status of the run. An in-memory run that can be queried is always running.
    pub status: RunStatus,
    /// True from a pause command until the next resume command.
    pub is_paused: bool,
    /// Since when or from when on a worker can claim the run, by the store's clock. While a driver
    /// holds it, that is not before its lease expires. `None` if it waits for a message only, or is
    /// over.
    pub due: Option<Timestamp>,
    /// Whether the run failed or was cancelled, and its completed nodes are being undone. False for
    /// an in-memory run.
    pub is_undoing: bool,
    /// The nodes undone so far, in the order of their undos, while the run is being undone.
    pub undone: Vec<String>,
    /// The number of node visits of the run so far.
    pub visits: u64,
    /// The tokens of the run: one, or one per branch of a fan-out.
    pub tokens: Vec<TokenView>,
    /// The tags of the run, by which it is found.
    pub tags: Tags,
    /// Why the run failed; or, while it is not over, its last failed attempt or branch. `None` for
    /// an in-memory run, whose caller gets the error.
    pub failure: Option<RunFailure>,
    /// Why the run could not be executed the last time, unless a commit followed. A stuck run says
    /// here what to repair.
    pub trouble: Option<String>,
    /// The last messages that the run refused, the oldest first. For an ended run, also the ones
    /// that it had not taken at its end. At most [`REFUSED_MAX`] of each.
    pub refused: Vec<RefusedMessage>,
}

/// The position of one token of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenView {
    /// The node, router, fan-out or end at which the token is.
    pub at: Place,
    /// The branches of the fan-outs in which the token is, outermost first.
    pub branch: Vec<Fork>,
    /// The last committed state, as JSON. `None` if it is the state of the enclosing fan-out, and
    /// for an in-memory run.
    pub state: Option<String>,
    /// The open waits of the node at which the token is.
    pub waits: Vec<WaitView>,
    /// The last failed attempt of the current visit; its `attempt` counts the failures. `None` for
    /// an in-memory run.
    pub failure: Option<RunFailure>,
}

impl WaitView {
    /// Converts an open wait of this process.
    pub(crate) fn of(wait: OpenWait) -> Self {
        let OpenWait { key, question, due, message } = wait;
        let is_signal = message.is_some_and(|message| message.starts_with(SIGNAL));
        Self { key, question: question.map(|question| question.to_string()), since: None, due, is_signal, refused: None }
    }
}

impl RunView {
    /// Returns all open waits of the run.
    pub fn waits(&self) -> impl Iterator<Item = &WaitView> {
        self.tokens.iter().flat_map(|token| &token.waits)
    }
}

/// The part of a record body that holds the state.
#[derive(Deserialize)]
struct WithState {
    state: Option<Box<RawValue>>,
}

/// Reads the position of a stored run. Starts again if the records were pruned meanwhile.
pub(super) async fn read_view(store: &dyn Store, run: &str) -> Result<RunView, StoreError> {
    let mut reads = 1;
    loop {
        match read_view_once(store, run).await {
            Err(StoreError::Pruned { .. }) if reads < READS_MAX => reads += 1,
            result => return result,
        }
    }
}

async fn read_view_once(store: &dyn Store, run: &str) -> Result<RunView, StoreError> {
    let info = store.head(run).await?;
    let position = open::position(store, run, info.head).await?;
    let records = open::records(store, run, position.frontier.rows().collect()).await?;
    let has_messages = info.last_message > 0;
    let messages = if has_messages { open::untaken(store, run, info.last_message).await? } else { Vec::new() };
    let mut refused = if has_messages { store.refused(run).await? } else { Vec::new() };
    if info.status.has_ended() {
        let untaken = messages.iter().skip(messages.len().saturating_sub(REFUSED_MAX));
        refused.extend(untaken.map(|message| {
            let name = message.message.name.clone();
            let cause = RefusalCause::RunEnded;
            RefusedMessage::new(message.number, name, cause.to_string(), message.at).because(cause, None)
        }));
    }
    let tokens = position.frontier.tokens().map(|token| token_view(token, &records, &refused)).collect();
    let failure = match info.failure {
        // The row of a run that failed before format 4 of the tables does not have it.
        None if info.status.has_ended() && info.status != RunStatus::Finished => {
            open::failure_at(store, run, position.base).await?
        }
        failure => failure,
    };
    let is_undoing = position.is_undoing && open::continues_undo(info.status);
    Ok(RunView {
        run: info.id,
        graph: info.graph,
        version: info.version,
        due: info.wake_at.map(|at| at.max(info.lease_until.unwrap_or_default())),
        status: info.status,
        is_paused: is_paused(run, messages),
        is_undoing,
        undone: if is_undoing { position.undone } else { Vec::new() },
        visits: position.head.visits,
        tokens,
        tags: info.tags,
        failure,
        trouble: info.trouble,
        refused,
    })
}

/// Returns true if the last command is a pause. A pause stays in the inbox until it is taken with
/// the following resume. Damaged messages are ignored.
fn is_paused(run: &str, messages: Vec<InboxMessage>) -> bool {
    let command = |message: InboxMessage| {
        let command = Command::parse(&message.message.name, b"")?;
        message.message.open(run).ok().map(|_| command)
    };
    messages.into_iter().filter_map(command).next_back() == Some(Command::Pause)
}

fn token_view(token: &LiveToken, records: &HashMap<u64, Record>, refused: &[RefusedMessage]) -> TokenView {
    let body = records.get(&token.row).map(|record| &record.body);
    let state =
        body.and_then(|body| serde_json::from_slice::<WithState>(body).ok()?.state).map(|state| state.get().to_string());
    let (mut waits, mut failure) = (BTreeMap::new(), None);
    for record in token.visit_records.iter().filter_map(|row| records.get(row)) {
        failure = failure_of(record).or(failure);
        let Ok(VisitRecordBody { key, signal, value, due, .. }) = serde_json::from_slice(&record.body) else { continue };
        // A signal and an interrupt can have the same name.
        let wait = (key.clone(), signal);
        match record.header.kind {
            Kind::Wait => {
                let question = value.map(|value| value.get().to_string());
                let (since, is_signal) = (Some(record.header.at), signal.is_some());
                let refused = refused.iter().rfind(|message| message.wait == Some(record.sequence)).cloned();
                waits.insert(wait, WaitView { key, question, since, due, is_signal, refused });
            }
            Kind::Wake => drop(waits.remove(&wait)),
            _ => {}
        }
    }
    TokenView { at: token.at.clone(), branch: token.path.clone(), state, waits: waits.into_values().collect(), failure }
}
