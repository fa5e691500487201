//! [`plan`]: the consequences of each action, as sentences. Nothing is changed.

use super::changes::changes;
use super::json::{checked, checked_name};
use super::{Found, Subject, effects, find, guard, of_store};
use crate::action::{Action, FoundRun, Plan, RunOrder};
use crate::durable::{StoreSource, value_of};
use crate::failure::Failure;
use crate::report::command::{of_run, quoted};
use crate::report::preview::PreviewJson;
use crate::report::text::counted;
use crate::report::times::rfc3339;
use pleach::durable::{RewindPreview, RewindTo, RunView, WaitView};
use pleach::graph::RunFault;
use pleach::store::{REASON_BYTES_MAX, RunInfo, RunStatus, StoreError, TAKEOVERS_MAX, TEXT_BYTES_MAX};
use serde_json::value::RawValue;

/// The largest value in bytes that a command line has. For a larger one it reads standard input.
const ARGUMENT_BYTES_MAX: usize = 2 << 10;

/// The most entries of each list of a preview.
const LISTED_MAX: usize = 100;

/// What an action would do.
#[derive(Default)]
struct Consequences {
    will: Vec<String>,
    refusal: Option<String>,
    preview: Option<RewindPreview>,
    is_destructive: bool,
}

pub(in crate::durable) async fn plan(source: &StoreSource, action: &Action) -> Result<Plan, Failure> {
    let action = of_store(action)?;
    check_lengths(&action.order)?;
    let found = find(source, &action.run).await?;
    let consequences = match &found {
        Found::Damaged(reason) => of_damaged(&action.order, reason),
        Found::Run(subject) => of_subject(source, subject, &action.order).await?,
    };
    let Consequences { will, refusal, preview, is_destructive } = consequences;
    Ok(Plan {
        title: title(&action.run, &action.order),
        will,
        preview: preview.map(shortened).as_ref().map(|preview| value_of(&PreviewJson::of(preview))).transpose()?,
        refusal,
        is_destructive,
        command: source.store().target().map(|store| command(store, &action.run, &action.order)),
        guard: guard(&action.order, &found),
        found: match &found {
            Found::Damaged(_) => None,
            Found::Run(subject) => {
                let RunInfo { status, created, .. } = &subject.info;
                Some(FoundRun { status: status.as_str().to_string(), created: rfc3339(*created) })
            }
        },
    })
}

/// Refuses texts that no store takes, before they are repeated in a plan.
fn check_lengths(order: &RunOrder) -> Result<(), Failure> {
    let (name, text, bytes_max) = match order {
        RunOrder::Fork { new, .. } => ("the id of the new run", new, TEXT_BYTES_MAX),
        RunOrder::Cancel { cancel_reason } => ("the reason", cancel_reason, REASON_BYTES_MAX),
        _ => return Ok(()),
    };
    let bytes = text.len();
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Failure::new("bad_request", format_args!("{name} has {bytes} bytes; at most {bytes_max}")))
}

/// Cuts the lists of a preview to what an answer has room for.
fn shortened(mut preview: RewindPreview) -> RewindPreview {
    let effects = [&mut preview.effects_again, &mut preview.effects_kept, &mut preview.effects_unknown];
    let mut is_cut = effects.into_iter().fold(preview.is_cut, |is_cut, list| cut_list(list) || is_cut);
    for list in [&mut preview.waits_again, &mut preview.waits_kept] {
        is_cut |= cut_list(list);
    }
    for list in [&mut preview.undos_kept, &mut preview.undos_dropped] {
        is_cut |= cut_list(list);
    }
    is_cut |= cut_list(&mut preview.nodes);
    preview.is_cut = is_cut;
    preview
}

fn cut_list<T>(list: &mut Vec<T>) -> bool {
    let is_cut = list.len() > LISTED_MAX;
    list.truncate(LISTED_MAX);
    is_cut
}

fn title(run: &str, order: &RunOrder) -> String {
    match order {
        RunOrder::Pause => format!("Pause run {run}"),
        RunOrder::Continue => format!("Let run {run} continue"),
        RunOrder::Cancel { .. } => format!("Cancel run {run}"),
        RunOrder::Answer { key, .. } => format!("Answer {key} of run {run}"),
        RunOrder::Signal { name, .. } => format!("Send the signal {name} to run {run}"),
        RunOrder::Rewind { record } => format!("Rewind run {run} to record {record}"),
        RunOrder::Fork { record, new, .. } => format!("Fork run {run} at record {record} as {new}"),
        RunOrder::Retry => format!("Retry run {run}"),
        RunOrder::Unstick => format!("Let workers claim run {run} again"),
        RunOrder::Delete => format!("Delete run {run}"),
    }
}

/// Returns the command that does the same.
fn command(store: &str, run: &str, order: &RunOrder) -> String {
    let value = |json: &str| if json.len() <= ARGUMENT_BYTES_MAX { quoted(json.trim()) } else { "-".into() };
    let (word, more) = match order {
        RunOrder::Pause => ("pause", String::new()),
        RunOrder::Continue => ("resume", String::new()),
        RunOrder::Cancel { cancel_reason } if cancel_reason.is_empty() => ("cancel", String::new()),
        RunOrder::Cancel { cancel_reason } => ("cancel", format!("--reason {}", quoted(cancel_reason))),
        RunOrder::Answer { key, value: json } => ("answer", format!("{} {}", quoted(key), value(json))),
        RunOrder::Signal { name, value: json } => ("signal", format!("{} {}", quoted(name), value(json))),
        RunOrder::Rewind { record } => ("rewind", record.to_string()),
        RunOrder::Fork { record, new, state: None } => ("fork", format!("{record} {}", quoted(new))),
        RunOrder::Fork { record, new, state: Some(state) } => {
            ("fork", format!("{record} {} --state {}", quoted(new), value(state)))
        }
        RunOrder::Retry => ("retry", String::new()),
        RunOrder::Unstick => ("unstick", String::new()),
        RunOrder::Delete => ("delete", String::new()),
    };
    of_run(store, run, word, &more)
}

/// A run whose row is damaged can only be deleted.
fn of_damaged(order: &RunOrder, reason: &str) -> Consequences {
    match order {
        RunOrder::Delete => Consequences {
            will: vec![format!("the run and its records are removed permanently; its row is damaged: {reason}")],
            is_destructive: true,
            ..Consequences::default()
        },
        _ => Consequences {
            refusal: Some(format!("the row of the run is damaged: {reason}; restore the store from a backup")),
            ..Consequences::default()
        },
    }
}

async fn of_subject(source: &StoreSource, subject: &Subject, order: &RunOrder) -> Result<Consequences, Failure> {
    match order {
        RunOrder::Pause => Ok(subject.pause()),
        RunOrder::Continue => Ok(subject.resume()),
        RunOrder::Cancel { .. } => Ok(subject.cancel()),
        RunOrder::Answer { key, value } => {
            checked(value, "the answer")?;
            checked_name(key, "the key of a question")?;
            Ok(subject.message(key, false))
        }
        RunOrder::Signal { name, value } => {
            checked(value, "the value of the signal")?;
            checked_name(name, "the name of a signal")?;
            Ok(subject.message(name, true))
        }
        RunOrder::Rewind { record } => subject.rewind(source, *record).await,
        RunOrder::Fork { record, new, state } => subject.fork(source, *record, new, state.as_deref()).await,
        RunOrder::Retry => subject.retry(source).await,
        RunOrder::Unstick => Ok(subject.unstick()),
        RunOrder::Delete => Ok(subject.delete()),
    }
}

impl Subject {
    fn driver(&self) -> &str {
        self.info.owner.as_deref().unwrap_or("unknown")
    }

    /// A message: refused if the run has ended.
    fn to_live(&self, will: Vec<String>, is_destructive: bool) -> Consequences {
        let status = self.info.status;
        let refusal = status.has_ended().then(|| format!("the run has ended ({status}) and takes no messages"));
        let will = if refusal.is_some() { Vec::new() } else { will };
        Consequences { will, refusal, is_destructive, preview: None }
    }

    fn is_paused(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.is_paused)
    }

    /// Says who takes a message.
    fn taker(&self) -> String {
        if self.is_held {
            return format!("driver {} takes it", self.driver());
        }
        match self.info.status {
            RunStatus::Stuck => "no worker takes it while the run is stuck; it stays in the inbox".into(),
            _ => "the next worker that claims the run takes it; until then it stays in the inbox".into(),
        }
    }

    fn pause(&self) -> Consequences {
        let mut will = Vec::new();
        if self.is_paused() {
            will.push("nothing changes: the run is paused".into());
        } else {
            will.push(match self.is_held {
                true => format!("driver {} finishes the nodes that run now, and starts no further node", self.driver()),
                false => "no worker drives the run".into(),
            });
            will.push("answers and signals are stored, and used after it continues".into());
        }
        self.to_live(will, false)
    }

    fn resume(&self) -> Consequences {
        let mut will = vec![match self.is_paused() {
            true => "workers drive the run again, from where it is".to_string(),
            false => "nothing changes: the run is not paused".into(),
        }];
        if self.info.status == RunStatus::Stuck {
            will.push("the run is stuck: no worker claims it before it is unstuck".into());
        }
        self.to_live(will, false)
    }

    fn cancel(&self) -> Consequences {
        let mut will = vec!["the run ends permanently, with the status cancelled".to_string()];
        if self.view.as_ref().is_some_and(|view| view.is_undoing) {
            will = vec!["the undos of the run go on; it ends after them".into()];
        } else {
            will.push("nodes that run now are cancelled; an effect that was started may have happened".into());
            will.push("completed nodes are not undone: their work stays done".into());
        }
        will.push(self.taker());
        self.to_live(will, true)
    }

    fn message(&self, key: &str, is_signal: bool) -> Consequences {
        let kind = if is_signal { "signal" } else { "answer" };
        let waits = || self.view.iter().flat_map(RunView::waits);
        let is_open = |wait: &&WaitView| wait.key == key && wait.is_signal == is_signal;
        let mut will = Vec::new();
        if waits().any(|wait| is_open(&wait)) {
            let node = self.node_waiting_for(key, is_signal);
            will.push(format!("node {node} gets the {kind} and continues"));
            will.push(format!("if the node cannot use it, the run refuses the {kind} and keeps waiting"));
        } else {
            let known: Vec<&str> = waits().map(|wait| wait.key.as_str()).take(5).collect();
            let known = if known.is_empty() { "nothing".into() } else { known.join(", ") };
            will.push(format!("the run does not wait for {key} now; it waits for {known}"));
            will.push(format!("the {kind} is stored for the next node that waits for {key}"));
        }
        if self.is_paused() {
            will.push("the run is paused: it takes it after it continues".into());
        }
        will.push(self.taker());
        self.to_live(will, false)
    }

    fn node_waiting_for(&self, key: &str, is_signal: bool) -> String {
        let waits =
            |token: &&pleach::durable::TokenView| token.waits.iter().any(|wait| wait.key == key && wait.is_signal == is_signal);
        let token = self.view.iter().flat_map(|view| &view.tokens).find(waits);
        token.map_or_else(String::new, |token| crate::durable::waits::node_of(&token.at).to_string())
    }

    /// A change of the log: refused while a driver holds the run.
    fn to_free(&self, preview: RewindPreview) -> Consequences {
        let refusal = self.is_held.then(|| self.held_text());
        let (will, is_destructive) = (effects::sentences(&preview), effects::is_destructive(&preview));
        Consequences { will, refusal, is_destructive, preview: Some(preview) }
    }

    fn held_text(&self) -> String {
        format!("driver {} holds the run: pause it first", self.driver())
    }

    async fn rewind(&self, source: &StoreSource, record: u64) -> Result<Consequences, Failure> {
        let remote = source.remote(&self.info.id);
        if let Err(fault) = remote.check_rewind(record).await {
            return refused(fault);
        }
        match remote.preview_rewind(RewindTo::Record(record)).await {
            Ok(preview) => {
                let mut found = self.to_free(preview);
                found.will.push("nothing is deleted: the records after it stay, and it can be rewound to them".into());
                if self.info.deadline.is_some() {
                    found.will.push("the deadline of the run is removed".into());
                }
                Ok(found)
            }
            Err(fault) => refused(fault),
        }
    }

    async fn retry(&self, source: &StoreSource) -> Result<Consequences, Failure> {
        let status = self.info.status;
        if !matches!(status, RunStatus::Failed | RunStatus::CompensationFailed) {
            let refusal = Some(format!("the run is {status}, not failed"));
            return Ok(Consequences { refusal, ..Consequences::default() });
        }
        match source.remote(&self.info.id).preview_rewind(RewindTo::Head).await {
            Ok(preview) => Ok(self.to_free(preview)),
            Err(fault) => refused(fault),
        }
    }

    async fn fork(&self, source: &StoreSource, record: u64, new: &str, state: Option<&str>) -> Result<Consequences, Failure> {
        let state = state.map(|state| checked(state, "the state")).transpose()?;
        if let Some(refusal) = refused_id(source, new).await? {
            return Ok(Consequences { refusal: Some(refusal), ..Consequences::default() });
        }
        let remote = source.remote(&self.info.id);
        let to = RewindTo::Record(record);
        if let Err(fault) = remote.check_fork(to, state.as_deref().map(RawValue::get)).await {
            return refused(fault);
        }
        let preview = match remote.preview_fork(to).await {
            Ok(preview) => preview,
            Err(fault) => return refused(fault),
        };
        let mut will = vec![format!("run {new} is created; run {} stays as it is", self.info.id)];
        if let Some(state) = state {
            let before = remote.state_at(record).await?;
            will.extend(source.redaction.guarded(|rules| Ok(changes(rules, &before, state.get())))?);
            will.push("if the nodes cannot use this state, the new run fails".into());
        }
        will.extend(effects::sentences(&preview));
        let is_destructive = !(preview.effects_again.is_empty() && preview.effects_unknown.is_empty());
        Ok(Consequences { will, refusal: None, is_destructive, preview: Some(preview) })
    }

    fn unstick(&self) -> Consequences {
        if self.info.status != RunStatus::Stuck {
            let refusal = Some(format!("the run is {}, not stuck", self.info.status));
            return Consequences { refusal, ..Consequences::default() };
        }
        let mut will = vec!["workers can claim the run again, and it continues where it was".to_string()];
        will.push(match &self.info.trouble {
            Some(trouble) => format!("the last worker could not drive it: {trouble}"),
            None => "its drivers died without a commit: its node may crash the process again".into(),
        });
        will.push(format!("after {TAKEOVERS_MAX} attempts without progress it is stuck again"));
        Consequences { will, ..Consequences::default() }
    }

    fn delete(&self) -> Consequences {
        let records = counted(self.info.head as usize, "record");
        let mut will = vec![format!("the run, its {records}, messages and tags are removed permanently")];
        if !self.info.status.has_ended() {
            will.push(format!("the run is {}: it never reaches its end", self.info.status));
        }
        will.push("runs that were forked from it stay".into());
        let refusal = self.is_held.then(|| self.held_text());
        Consequences { will, refusal, is_destructive: true, preview: None }
    }
}

/// Turns a fault of a preview into a refusal, or into a failure of the store.
fn refused(fault: RunFault) -> Result<Consequences, Failure> {
    let failure = Failure::from(fault);
    match failure.code.as_str() {
        "refused" | "not_found" => Ok(Consequences { refusal: Some(failure.text), ..Consequences::default() }),
        _ => Err(failure),
    }
}

/// Says why a run with this id cannot be created.
async fn refused_id(source: &StoreSource, new: &str) -> Result<Option<String>, Failure> {
    if new.is_empty() || new.len() > TEXT_BYTES_MAX || new.contains('\0') {
        return Ok(Some(format!("the id of the new run must have 1 to {TEXT_BYTES_MAX} bytes")));
    }
    match source.store().store().head(new).await {
        Err(StoreError::RunNotFound { .. }) => Ok(None),
        Ok(_) | Err(StoreError::Damaged { .. }) => Ok(Some(format!("the store already has a run {new}"))),
        Err(error) => Err(error.into()),
    }
}
