//! [`carry_out`]: does what was planned, and says what became of it.
//!
//! | outcome | meaning |
//! |---|---|
//! | `taken` | the run took the message |
//! | `stored` | the message is in the inbox, and no driver has taken it yet |
//! | `done` | the change is stored |
//! | `refused` | nothing was changed; the text says why |

use super::json::{checked, checked_name};
use super::{Found, find, guard, of_store};
use crate::action::{Action, Outcome, RunOrder, StoreAction};
use crate::durable::StoreSource;
use crate::failure::Failure;
use pleach::durable::{Delivery, RewindTo, RunControlError};
use pleach::graph::RunFault;
use pleach::store::StoreError;
use std::time::Duration;

/// How long a message may take to be confirmed.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(3);

pub(in crate::durable) async fn carry_out(source: &StoreSource, action: &Action, planned: &str) -> Result<Outcome, Failure> {
    let action = of_store(action)?;
    let found = find(source, &action.run).await?;
    if guard(&action.order, &found) != planned {
        let now = match &found {
            Found::Run(subject) => format!("it is {} at record {} now", subject.info.status, subject.info.head),
            Found::Damaged(_) => "its row is damaged now".to_string(),
        };
        return Err(Failure::new("changed", format_args!("run {} has changed since it was planned: {now}", action.run))
            .advice("look at the run, and plan the action again"));
    }
    steer(source, action).await
}

async fn steer(source: &StoreSource, action: &StoreAction) -> Result<Outcome, Failure> {
    let remote = source.remote(&action.run);
    match &action.order {
        RunOrder::Pause => confirmed(remote.pause(), "the run is paused").await,
        RunOrder::Continue => confirmed(remote.resume(), "the run continues").await,
        RunOrder::Cancel { cancel_reason } => {
            let reason = if cancel_reason.is_empty() { "cancelled in the console" } else { cancel_reason };
            confirmed(remote.cancel(reason), "the run is cancelled").await
        }
        RunOrder::Answer { key, value } => {
            let value = checked(value, "the answer")?;
            confirmed(remote.resume_with(checked_name(key, "the key of a question")?, &*value), "the run took the answer").await
        }
        RunOrder::Signal { name, value } => {
            let value = checked(value, "the value of the signal")?;
            confirmed(remote.signal(checked_name(name, "the name of a signal")?, &*value), "the run took the signal").await
        }
        RunOrder::Rewind { record } => {
            changed(remote.rewind_to(*record).await.map(Some), "the run was rewound; a worker continues it", None)
        }
        RunOrder::Retry => changed(remote.retry().await.map(Some), "the run is tried again by the next free worker", None),
        RunOrder::Unstick => changed(remote.unstick().await.map(|()| None), "workers can claim the run again", None),
        RunOrder::Fork { record, new, state } => {
            let state = state.as_deref().map(|state| checked(state, "the state")).transpose()?;
            let state = state.as_deref().map(serde_json::value::RawValue::get);
            let forked = remote.fork_to(new.as_str(), RewindTo::Record(*record), state).await;
            changed(forked.map(|_| None), "the new run was created; a worker continues it", Some(new))
        }
        RunOrder::Delete => match source.store().store().delete(&action.run).await {
            Ok(()) => Ok(outcome("done", "the run was deleted")),
            Err(error) => refused(error.into()),
        },
    }
}

fn outcome(outcome: &str, text: impl Into<String>) -> Outcome {
    Outcome { outcome: outcome.to_string(), text: text.into(), record: None, run: None }
}

/// Sends a message, and waits a moment for the run to take it.
async fn confirmed(delivery: Delivery, taken: &str) -> Result<Outcome, Failure> {
    match delivery.confirmed(CONFIRMED_WITHIN).await {
        Ok(()) => Ok(outcome("taken", taken)),
        Err(RunControlError::Unconfirmed { waits, .. }) => {
            let waits = if waits.is_empty() { String::new() } else { format!("; it waits for {}", waits.join(", ")) };
            Ok(outcome("stored", format!("stored in the inbox: the next driver of the run takes it{waits}")))
        }
        Err(RunControlError::Refused { reason, .. }) => Ok(outcome("refused", format!("the run refused it: {reason}"))),
        Err(RunControlError::Ended { status, .. }) => {
            Ok(outcome("refused", format!("the run ended ({status}) before it took the message")))
        }
        Err(RunControlError::Store(error @ StoreError::InboxFull { .. })) => Ok(outcome("refused", error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Returns what became of a change of the log. The first number is the new last record.
fn changed(result: Result<Option<u64>, RunFault>, text: &str, run: Option<&str>) -> Result<Outcome, Failure> {
    match result {
        Ok(record) => Ok(Outcome { record, run: run.map(str::to_string), ..outcome("done", text) }),
        Err(fault) => refused(fault.into()),
    }
}

/// Turns a refusal into an outcome. Other failures stay failures.
fn refused(failure: Failure) -> Result<Outcome, Failure> {
    if failure.code == "refused" { Ok(outcome("refused", failure.text)) } else { Err(failure) }
}
