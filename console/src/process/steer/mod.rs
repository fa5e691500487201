//! Actions on the members of a process: what they would do (`plan`), and doing them (`carry_out`).
//!
//! The process has the last word: it decides whether it allows an action, and refuses one on a
//! member that was replaced meanwhile.

mod carry_out;
mod plan;

pub(super) use carry_out::carry_out;
pub(super) use plan::plan;

use crate::action::{Action, ProcessAction, ProcessOrder};
use crate::failure::Failure;
use crate::process::parse_path;
use pleach::actor::ActorPath;
use pleach::inspect::{InspectAction, MemberInfo};

/// Returns the action if it is about a process.
fn of_process(action: &Action) -> Result<&ProcessAction, Failure> {
    match action {
        Action::Process(action) => Ok(action),
        Action::Store(_) => Err(Failure::new("bad_request", "this action is for a store, not for a process")),
    }
}

/// Returns the action of the protocol, and its verb as the command has it.
fn named(order: ProcessOrder) -> (InspectAction, &'static str) {
    match order {
        ProcessOrder::Stop => (InspectAction::Stop, "stop"),
        ProcessOrder::Restart => (InspectAction::Restart, "restart"),
        ProcessOrder::Suspend => (InspectAction::Suspend, "suspend"),
        ProcessOrder::Resume => (InspectAction::Resume, "resume"),
        ProcessOrder::LogLevel => (InspectAction::LogLevel, "log-level"),
    }
}

fn path_of(action: &ProcessAction) -> Result<ActorPath, Failure> {
    let path = action.path.as_deref().ok_or_else(|| Failure::new("bad_request", "the path of the member is missing"))?;
    parse_path(path)
}

fn level_of(action: &ProcessAction) -> Result<&str, Failure> {
    action.level.as_deref().ok_or_else(|| Failure::new("bad_request", "the log level is missing"))
}

/// What must not change between a plan and its execution: the member, and its incarnation.
fn guard(member: &MemberInfo) -> String {
    format!("{} {}", member.id, member.actor.as_ref().map_or(0, |actor| actor.incarnation))
}
