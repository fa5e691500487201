//! Shutting a system down within a time limit.
//!
//! 1. The root is closed: nothing new starts, and everything ends youngest first.
//! 2. After the time limit, everything that still runs is cancelled (`Late`).
//! 3. What does not end within the system's grace after that is reported (`Stuck`).
//!
//! Invariant: once begun, the time limit is enforced even if the future of the shutdown is dropped.

use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::events::cause::Cause;
use crate::ids::path::ActorPath;
use crate::system::System;
use crate::tree::member::{Member, StopMode};
use crate::tree::node::Running;
use crate::tree::wait_all::{WaitAll, WaitError, write_running};
use crate::tree::{node, wait_all};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

impl System {
    /// Shuts the system down: starts nothing new, closes everything youngest first, and cancels
    /// what has not ended after `grace`.
    ///
    /// Actors process their queued messages first. Dropping this future does not stop the shutdown;
    /// the time limit still applies.
    ///
    /// # Errors
    /// - [`ShutdownError::Late`]: members that were cancelled after `grace` and have ended since.
    /// - [`ShutdownError::Stuck`]: members that have not ended even after the cancel, within the
    ///   grace that the system gives to hooks.
    /// - [`ShutdownError::FromInside`]: called inside a member of this system. The shutdown has
    ///   begun, but a member cannot wait for itself.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), ShutdownError> {
        let inside = wait_all::current_member_within(self.root.node());
        self.root.stop_with(&self.root_member(), StopMode::Close);
        let mut deadline =
            ShutdownDeadline { root: self.root_member(), at: self.root.node().runtime().now() + grace, is_open: true };
        if let Some(child) = inside {
            // Dropping the deadline spawns a task that enforces it.
            return Err(ShutdownError::FromInside(child));
        }
        let ended = WaitAll::new(self.root_member(), Some(grace)).await;
        deadline.is_open = false;
        match ended {
            Err(WaitError::StillRunning(late)) => {
                let late = without_guardians(late);
                node::cancel(&self.root_member(), &Cause::DeadlineExceeded);
                self.last_wait(late).await
            }
            _ => Ok(()),
        }
    }

    /// Waits again after the cancel. A member that still runs is stuck in one poll, and is
    /// reported.
    async fn last_wait(&self, late: Vec<Running>) -> Result<(), ShutdownError> {
        let wait = self.root.node().tree().grace;
        match WaitAll::new(self.root_member(), Some(wait)).await {
            Err(WaitError::StillRunning(stuck)) => Err(ShutdownError::Stuck(without_guardians(stuck))),
            _ => Err(ShutdownError::Late(late)),
        }
    }
}

/// Removes `/user` and `/system`, which only wait for their children.
fn without_guardians(mut running: Vec<Running>) -> Vec<Running> {
    running.retain(|one| one.path.segments().len() > 1);
    running
}

/// The time limit of a shutdown. Dropped while it is open, it spawns a task that enforces it.
struct ShutdownDeadline {
    root: Arc<dyn Member>,
    at: Instant,
    is_open: bool,
}

impl Drop for ShutdownDeadline {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let (root, runtime) = (Arc::clone(&self.root), self.root.node().runtime());
        let ended = WaitAll::new(Arc::clone(&root), Some(self.at.since(runtime.now())));
        runtime.spawn(Box::pin(async move {
            if let Err(WaitError::StillRunning(_)) = ended.await {
                node::cancel(&root, &Cause::DeadlineExceeded);
            }
        }));
    }
}

/// The reason why a shutdown was not clean.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ShutdownError {
    /// These members did not end in time. They were cancelled and have ended since.
    Late(Vec<Running>),
    /// These members did not end even after they were cancelled: each is stuck in one poll.
    Stuck(Vec<Running>),
    /// The shutdown was called by a member of the system, with this path. It has begun, but cannot
    /// be awaited there.
    FromInside(ActorPath),
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(late) => {
                f.write_str("shutdown timed out and cancelled the rest, ")?;
                write_running(f, late)
            }
            Self::Stuck(stuck) => {
                f.write_str("shutdown timed out, and a cancel did not end the rest, ")?;
                write_running(f, stuck)
            }
            Self::FromInside(path) => {
                write!(f, "{path} is part of the system that it shuts down and cannot wait for it; the shutdown has begun")
            }
        }
    }
}

impl core::error::Error for ShutdownError {}
