//! Messages to a run, and the view of its position.
//!
//! | message | received by | sent with |
//! |---|---|---|
//! | signal: named data | a node in `signal` | `signal`, `signal_once` |
//! | answer to an interrupt | a node in `interrupt` | `resume_with` |
//! | command: pause, resume, cancel | the engine | `pause`, `resume`, `cancel` |
//! | query for a [`RunView`] | the engine, or the store | `view` |
//!
//! A stored run receives messages through the inbox in its store, from any process: [`RunRemote`].
//! A run in the tree also has a control actor: [`RunRef`]. For a stored run, the actor posts to the
//! store. For an in-memory run, it passes messages on in memory.
//!
//! ```text
//!   RunRef ─ RunMessage ─► control actor ─► inbox in the store ─► Committer ─► engine: commands
//!   RunRemote ────────────────────────────►                          └──────► Inbox ─► nodes
//!                          control actor ─► RunControl, Inbox (in memory) ──► engine and nodes
//! ```
//!
//! Invariants:
//! 1. An accepted message to a stored run is durable.
//! 2. Each message is taken once, by the current driver or by a later one. A message that the run
//!    refuses stays listed in the store, with the reason.
//!
//! Locks: `RunControl` and `Inbox` have one lock each and never hold both. The lock of visit
//! records may be taken while the lock of the `Inbox` is held, never the other way round. No waker
//! is called under these locks.

mod delivery;
mod inbox;
mod inbox_state;
mod refusal_reports;
mod remote;
mod run_control;
mod run_problems;
mod run_ref;
mod view;

pub use delivery::Delivery;
pub(crate) use inbox::{Inbox, InboxWait, TakenMessage};
pub(crate) use inbox_state::RejectedMessage;
pub(crate) use refusal_reports::{Refuser, RestoredWaits, RunRefusals, WorkerRefusals};
pub use remote::{RunControlError, RunRemote};
pub(crate) use run_control::{ControlUpdate, RunControl};
pub use run_problems::RunProblem;
pub(crate) use run_ref::{CONTROL, MessageTarget, control};
pub use run_ref::{RunMessage, RunRef};
pub use view::{RunView, TokenView};

use crate::store::message_kind::{CANCEL, PAUSE, RESUME};

/// A command to the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Pause,
    Resume,
    Cancel(String),
}

impl Command {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Pause => PAUSE,
            Self::Resume => RESUME,
            Self::Cancel(_) => CANCEL,
        }
    }

    fn payload(&self) -> Vec<u8> {
        match self {
            Self::Pause | Self::Resume => b"null".to_vec(),
            Self::Cancel(reason) => serde_json::to_vec(reason).expect("a string can be serialised"),
        }
    }

    /// Decodes the command that a message carries. Returns `None` for messages of other kinds.
    pub(crate) fn parse(name: &str, payload: &[u8]) -> Option<Self> {
        match name {
            PAUSE => Some(Self::Pause),
            RESUME => Some(Self::Resume),
            CANCEL => Some(Self::Cancel(serde_json::from_slice(payload).unwrap_or_default())),
            _ => None,
        }
    }
}
