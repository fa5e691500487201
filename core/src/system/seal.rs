//! The end of start-up: a sealed system allocates nothing more.

use crate::base::sync::{Arc, unsize};
use crate::events::limit::Refused;
use crate::system::System;
use crate::tree::member::Member;
use crate::tree::reserve::SealError;
use crate::tree::{current, reserve};
use alloc::vec::Vec;

impl System {
    /// Declares the end of start-up. From now on the members of the system do their work in memory
    /// that is allocated by this call.
    ///
    /// Call it when all members run and are idle. In a build without `std`, the following then
    /// allocates nothing:
    ///
    /// - `tell`, `try_send`, and `send` while the mailbox has room;
    /// - asks, within [`Props::reserve_asks`](crate::Props::reserve_asks), with and without a
    ///   timeout;
    /// - timers, within [`Props::reserve_timers`](crate::Props::reserve_timers);
    /// - restarts of actors without children by a one-for-one strategy, with and without backoff.
    ///
    /// What would need more is refused, and the error names the member and the limit
    /// ([`LimitReached`](crate::LimitReached)): a further member, ask or timer, and a send that
    /// would wait for room. Refusals are counted ([`refusals`](Self::refusals)), and are a reason
    /// of [`health`](Self::health).
    ///
    /// It does not cover what user code allocates: a returned error that is not of size zero is
    /// boxed by its conversion, and so are a closure with captures that is passed to a timer and
    /// the future of [`Context::sleep`](crate::Context::sleep). Listeners, snapshots, the end of a
    /// member, escalation, and restarts of several children together allocate too.
    ///
    /// With `std` all limits are the same, but tables allocate. A further call does nothing.
    ///
    /// # Errors
    /// [`SealError`] if the mailbox of an actor is unbounded or too large. Nothing is sealed then,
    /// and the call can be repeated.
    ///
    /// # Examples
    /// ```
    /// use pleach::runtime::Dispatcher;
    /// use pleach::system::System;
    /// use pleach::{BoxError, Mailbox, Props};
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("board", sim.runtime()).build()?;
    /// let log = || Props::from_fn(|| (), |(), _line: &str| Ok::<(), BoxError>(())).mailbox(Mailbox::bounded(8));
    /// let first = system.spawn("first", log()).unwrap();
    /// sim.drain_ready();
    /// system.seal()?;
    /// first.tell("works as before").unwrap();
    /// let refused = system.spawn("second", log()).unwrap_err();
    /// assert!(refused.to_string().contains("/user starts no further member"), "{refused}");
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn seal(&self) -> Result<(), SealError> {
        let tree = self.root.node().tree();
        if tree.seal.is_sealed() {
            return Ok(());
        }
        reserve::reserve_all(&(unsize!(Arc::clone(&self.root) => dyn Member)))?;
        current::reserve();
        tree.runtime.reserve();
        tree.seal.set();
        Ok(())
    }

    /// Returns whether the system is sealed: [`seal`](Self::seal) has succeeded.
    pub fn is_sealed(&self) -> bool {
        self.root.node().tree().seal.is_sealed()
    }

    /// Returns what the sealed system has refused, and how often: at most
    /// [`REFUSALS_KEPT_MAX`](crate::REFUSALS_KEPT_MAX) entries, one for each member and limit.
    pub fn refusals(&self) -> Vec<Refused> {
        self.root.node().tree().seal.refused().0
    }
}
