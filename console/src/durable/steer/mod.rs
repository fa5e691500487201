//! Steering of runs: what an action would do, and doing it.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | what is read of a run; the guard |
//! | `plan` | the consequences of each action, as sentences |
//! | `changes` | how the state of a fork differs, without its secrets |
//! | `effects` | the sentences about what runs again |
//! | `json` | values that people entered, checked and never parsed as numbers |
//! | `carry_out` | carrying out, and what became of it |
//!
//! The **guard** says what must not change between a plan and its action:
//!
//! | actions | guard |
//! |---|---|
//! | pause, continue, cancel, signal | the run has not been replaced, and still takes messages |
//! | answer | that, and the same question is open |
//! | rewind, fork, retry, unstick, delete | the run has the same status and the same last record |
//!
//! A driver that works writes records all the time. A pause must reach it nevertheless, so the
//! guard of a message has no record.

mod carry_out;
mod changes;
mod effects;
mod json;
mod plan;

pub(super) use carry_out::carry_out;
pub(super) use plan::plan;

use super::StoreSource;
use crate::action::{Action, RunOrder, StoreAction};
use crate::failure::Failure;
use pleach::durable::{RunControlError, RunView};
use pleach::store::{RunInfo, StoreError, Timestamp};

/// A run that an action is about.
struct Subject {
    info: RunInfo,
    /// The position of the run; `None` if its log is damaged.
    view: Option<RunView>,
    /// Whether a driver holds it, as far as is known.
    is_held: bool,
}

/// What was found at the id of an action.
enum Found {
    Run(Box<Subject>),
    /// The row of the run is damaged.
    Damaged(&'static str),
}

/// Returns the action on a run.
fn of_store(action: &Action) -> Result<&StoreAction, Failure> {
    match action {
        Action::Store(action) => Ok(action),
        Action::Process(_) => Err(Failure::new("not_possible", "a store has no members: this action needs a process")),
    }
}

async fn find(source: &StoreSource, run: &str) -> Result<Found, Failure> {
    let info = match source.store().store().head(run).await {
        Err(StoreError::Damaged { reason, .. }) => return Ok(Found::Damaged(reason)),
        found => found?,
    };
    let view = match source.remote(run).view().await {
        Ok(view) => Some(view),
        Err(RunControlError::Store(StoreError::Damaged { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let now: Timestamp = source.now().await;
    let is_unexpired = info.owner.is_some() && info.lease_until.is_some_and(|until| until > now);
    let is_held = is_unexpired && source.store().is_holder_alive(run).await? != Some(false);
    Ok(Found::Run(Box::new(Subject { info, view, is_held })))
}

/// Returns what must not change until the action is carried out.
fn guard(order: &RunOrder, found: &Found) -> String {
    let Found::Run(subject) = found else { return "damaged".into() };
    let Subject { info, view, .. } = &**subject;
    let life = if info.status.has_ended() { "ended" } else { "live" };
    match order {
        RunOrder::Pause | RunOrder::Continue | RunOrder::Cancel { .. } | RunOrder::Signal { .. } => {
            format!("{} {life}", info.instance)
        }
        RunOrder::Answer { key, .. } => {
            let open = view.iter().flat_map(RunView::waits).find(|wait| wait.key == *key && !wait.is_signal);
            let since = open.map(|wait| wait.since.unwrap_or_default().as_millis());
            format!("{} {life} {since:?}", info.instance)
        }
        RunOrder::Rewind { .. } | RunOrder::Fork { .. } | RunOrder::Retry | RunOrder::Unstick | RunOrder::Delete => {
            format!("{} {} {}", info.instance, info.status, info.head)
        }
    }
}
