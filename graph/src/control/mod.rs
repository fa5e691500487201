//! How a run is told things while it goes on: paused, resumed, cancelled, signalled, answered, and asked where it stands.
//!
//! A run that is stored is told through the inbox that its store keeps for it, from any process: [`RunRemote`]. What was accepted is durable and
//! taken once. A run that stands in the tree can be told there, too: [`RunRef`], an actor beside its driver, which posts to the store for a run
//! that has one, and hands things over in memory for one that has not. Either way they come to the run's `RunControl`, where its engine finds them.
//!
//! ```text
//!   RunRef ── RunMessage ──► control (actor) ──► store's inbox ──► scribe ─► mail ─► engine: commands
//!   RunRemote ───────────────────────────────►       ▲                         └───► nodes: signals, answers
//!                            control ─► Desk ────────┴ (not stored) ───────────────► engine and nodes
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
