//! Signals, answers, commands and queries to a run, and the view of its position.
//!
//! A stored run receives messages through the inbox in its store, from any process: [`RunRemote`].
//! An accepted message is durable and taken once. A run in the tree also has a control actor:
//! [`RunRef`]. The actor posts to the store for a stored run, and passes messages in memory
//! otherwise. The engine finds them in the run's `RunControl` and `Inbox`.
//!
//! ```text
//!   RunRef ─ RunMessage ─► control actor ─► inbox in the store ─► Committer ─► engine: commands
//!   RunRemote ────────────────────────────►                          └──────► Inbox ─► nodes
//!                          control actor ─► RunControl, Inbox (in memory) ──► engine and nodes
//! ```

mod inbox;
mod remote;
mod run_control;
mod run_ref;
mod view;

pub(crate) use inbox::{Inbox, InboxWait, RejectedMessage, TakenMessage};
pub use remote::{RunRemote, TellError};
pub(crate) use run_control::{ControlUpdate, RunControl};
pub(crate) use run_ref::{CONTROL, MessageTarget, control};
pub use run_ref::{RunMessage, RunRef};
pub use view::{RunView, TokenView};

use crate::store::message_kind::{CANCEL, PAUSE, RESUME};

/// What a run is told as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Pause,
    Resume,
    Cancel(String),
}

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Self::Pause => PAUSE,
            Self::Resume => RESUME,
            Self::Cancel(_) => CANCEL,
        }
    }

    fn payload(&self) -> Vec<u8> {
        match self {
            Self::Pause | Self::Resume => b"null".to_vec(),
            Self::Cancel(why) => serde_json::to_vec(why).expect("a text has a form as JSON"),
        }
    }

    /// The command that a message is, if it is one that is known here.
    pub(crate) fn parse(name: &str, payload: &[u8]) -> Option<Self> {
        match name {
            PAUSE => Some(Self::Pause),
            RESUME => Some(Self::Resume),
            CANCEL => Some(Self::Cancel(serde_json::from_slice(payload).unwrap_or_default())),
            _ => None,
        }
    }
}
