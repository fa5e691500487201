//! `RunView`: the position of a run, for observers.

use crate::control::Command;
use crate::log::message::SIGNAL;
use crate::log::open;
use crate::log::visit::{OpenWait, VisitRecordBody};
use crate::store::{Fork, InboxMessage, Kind, LiveToken, Place, Record, RunStatus, Store, StoreError};
use crate::token::WaitView;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};

/// How often a look is begun anew because the run went on meanwhile and let go of what was to be read.
const LOOKS_MAX: usize = 4;

/// Where a run stands. Of a stored run it is what is durable, whoever drives it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunView {
    /// The id of the run.
    pub run: String,
    /// The name of its graph.
    pub graph: String,
    /// How it stands. A run that is not stored is running as long as it can be asked.
    pub status: RunStatus,
    /// Whether it was told to pause, and not to go on since.
    pub is_paused: bool,
    /// How many nodes it has visited.
    pub visits: u64,
    /// Its lines of control.
    pub tokens: Vec<TokenView>,
}

/// One line of control.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenView {
    /// Where it stands.
    pub at: Place,
    /// In which branches of which fan-outs, the outermost first.
    pub branch: Vec<Fork>,
    /// The last committed state, as JSON; `None` where it is that of the fan-out above, and for a run that is not stored.
    pub state: Option<String>,
    /// What its node waits for.
    pub waits: Vec<WaitView>,
}

impl WaitView {
    /// What a node of this process waits for.
    pub(crate) fn of(wait: OpenWait) -> Self {
        let OpenWait { key, question, due, message } = wait;
        let is_signal = message.is_some_and(|message| message.starts_with(SIGNAL));
        Self { key, question: question.map(|question| question.to_string()), due, is_signal }
    }
}

impl RunView {
    /// All that the run waits for.
    pub fn waits(&self) -> impl Iterator<Item = &WaitView> {
        self.tokens.iter().flat_map(|token| &token.waits)
    }
}

#[derive(Deserialize)]
struct WithState {
    state: Option<Box<RawValue>>,
}

/// Reads where a stored run stands.
pub(super) async fn look(store: &dyn Store, run: &str) -> Result<RunView, StoreError> {
    let mut looks = 1;
    loop {
        match look_once(store, run).await {
            Err(StoreError::Pruned { .. }) if looks < LOOKS_MAX => looks += 1,
            looked => return looked,
        }
    }
}

async fn look_once(store: &dyn Store, run: &str) -> Result<RunView, StoreError> {
    let info = store.head(run).await?;
    let stands = open::position(store, run, info.head).await?;
    let records = open::records(store, run, stands.frontier.rows().collect()).await?;
    let messages = if info.posted == 0 { Vec::new() } else { open::untaken(store, run, info.posted).await? };
    Ok(RunView {
        run: info.id,
        graph: info.graph,
        status: info.status,
        is_paused: is_paused(run, messages),
        visits: stands.head.visits,
        tokens: stands.frontier.tokens().map(|token| token_view(token, &records)).collect(),
    })
}

/// Whether the last command is to pause: that one is taken only with the command to go on. Damaged messages do not count.
fn is_paused(run: &str, messages: Vec<InboxMessage>) -> bool {
    let command = |message: InboxMessage| {
        let command = Command::parse(&message.post.name, b"")?;
        message.post.open(run).ok().map(|_| command)
    };
    messages.into_iter().filter_map(command).next_back() == Some(Command::Pause)
}

fn token_view(token: &LiveToken, records: &HashMap<u64, Record>) -> TokenView {
    let body = records.get(&token.row).map(|record| &record.body);
    let state =
        body.and_then(|body| serde_json::from_slice::<WithState>(body).ok()?.state).map(|state| state.get().to_string());
    let mut waits = BTreeMap::new();
    for record in token.notes.iter().filter_map(|note| records.get(note)) {
        let Ok(VisitRecordBody { key, signal, value, due, .. }) = serde_json::from_slice(&record.body) else { continue };
        // A signal and a question may have the same name.
        let wait = (key.clone(), signal);
        match record.header.kind {
            Kind::Wait => {
                let question = value.map(|value| value.get().to_string());
                waits.insert(wait, WaitView { key, question, due, is_signal: signal.is_some() });
            }
            Kind::Wake => drop(waits.remove(&wait)),
            _ => {}
        }
    }
    TokenView { at: token.at.clone(), branch: token.path.clone(), state, waits: waits.into_values().collect() }
}
