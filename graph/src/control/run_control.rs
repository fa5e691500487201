//! `RunControl`: commands and queries to one run, and the pause gate for its nodes.
//!
//! Shared by the engine, the lanes and the control actor.
//!
//! | flag | set by | cleared by |
//! |---|---|---|
//! | `is_paused` | `pause`, by the engine | `resume`, by the engine |
//! | `is_open` | `open`, when the run exists in its store or never will | never |
//!
//! Invariants:
//! 1. At most one pause or resume and at most one cancel are queued.
//! 2. A lane that finds the run paused is woken by the next `release`.
//! 3. `resume` clears `is_paused` before it takes the wakers under the lock. A lane checks
//!    `is_paused` again under the lock, so no lane is stored after the release that would wake it.

use crate::control::Command;
use crate::control::remote::RunControlError;
use crate::control::view::RunView;
use crate::util::work_count;
use pleach_core::Reply;
use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

#[derive(Default)]
pub(crate) struct RunControl {
    /// True while no further node may start.
    is_paused: AtomicBool,
    state: Mutex<ControlState>,
}

#[derive(Default)]
struct ControlState {
    /// The commands to an in-memory run.
    commands: Vec<Command>,
    queries: Vec<ViewQuery>,
    /// The highest number of a message that was posted to the store.
    last_message: u64,
    /// The waker of the engine.
    driver: Option<Waker>,
    /// The wakers of the lanes that wait for the end of the pause.
    paused_lanes: Vec<Waker>,
    /// Data and vtable addresses of these wakers, to find duplicates.
    known: HashSet<(usize, usize)>,
    /// True if the run can receive messages or is over.
    is_open: bool,
    /// Woken when `is_open` is set. Only the control actor waits.
    opening: Option<Waker>,
}

/// A query for the position of an in-memory run, with the channel for the reply.
pub(crate) type ViewQuery = Reply<Result<RunView, RunControlError>>;

/// The commands, queries and posts since the last [`RunControl::take`].
#[derive(Default)]
pub(crate) struct ControlUpdate {
    pub(crate) commands: Vec<Command>,
    pub(crate) queries: Vec<ViewQuery>,
    pub(crate) last_message: u64,
}

impl RunControl {
    fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, change: impl FnOnce(&mut ControlState)) {
        let driver = {
            let mut state = self.lock();
            change(&mut state);
            state.driver.clone()
        };
        driver.into_iter().for_each(Waker::wake);
    }

    /// Lets the control actor post to the store: the run exists in it now, or never will.
    pub(crate) fn open(&self) {
        let opening = {
            let mut state = self.lock();
            state.is_open = true;
            state.opening.take()
        };
        opening.into_iter().for_each(Waker::wake);
    }

    /// Waits until [`open`](Self::open) was called. Only the control actor may wait here.
    pub(super) async fn opened(&self) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.is_open {
                return Poll::Ready(());
            }
            state.opening = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Queues a command to an in-memory run. As in a stored inbox, the last pause or resume counts,
    /// and the first cancel.
    pub(super) fn queue_command(&self, command: Command) {
        let cancels = |command: &Command| matches!(command, Command::Cancel(_));
        self.add(|state| match state.commands.iter_mut().find(|known| cancels(known) == cancels(&command)) {
            Some(known) if !cancels(known) => *known = command,
            Some(_) => {}
            None => state.commands.push(command),
        });
    }

    /// Queues a query to an in-memory run. Removes queries whose callers have given up.
    pub(super) fn queue_query(&self, query: ViewQuery) {
        self.add(|state| {
            state.queries.retain(|query| !query.is_closed());
            state.queries.push(query);
        });
    }

    /// Reports that the store has a message with this number.
    pub(super) fn note_posted(&self, last_message: u64) {
        self.add(|state| state.last_message = state.last_message.max(last_message));
    }

    /// Takes everything that was queued. Later changes wake `driver`.
    pub(crate) fn take(&self, driver: &Waker) -> ControlUpdate {
        let mut state = self.lock();
        match &mut state.driver {
            Some(known) => known.clone_from(driver),
            none => *none = Some(driver.clone()),
        }
        let (commands, queries) = (std::mem::take(&mut state.commands), std::mem::take(&mut state.queries));
        ControlUpdate { commands, queries, last_message: state.last_message }
    }

    /// Pauses the run: no further node starts.
    pub(crate) fn pause(&self) {
        self.is_paused.store(true, Ordering::Relaxed);
    }

    /// Ends the pause and wakes the lanes that wait for it.
    pub(crate) fn resume(&self) {
        self.is_paused.store(false, Ordering::Relaxed);
        let held = {
            let mut state = self.lock();
            state.known.clear();
            std::mem::take(&mut state.paused_lanes)
        };
        held.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Returns true if a lane may not start its node now. The lane is woken when the pause ends.
    pub(crate) fn holds(&self, lane: &Waker) -> bool {
        self.is_paused() && self.store_lane(lane)
    }

    /// Stores the waker of a lane that found the run paused. Returns false if the pause has ended
    /// meanwhile.
    fn store_lane(&self, lane: &Waker) -> bool {
        let mut state = self.lock();
        // `release` clears the flag before it takes the wakers under this lock.
        if !self.is_paused() {
            return false;
        }
        work_count::count(1);
        // Wakers with equal data and vtable wake the same lane, as in `Waker::will_wake`. A stored
        // waker keeps its data alive, so the address cannot be reused.
        if state.known.insert((lane.data().addr(), std::ptr::from_ref(lane.vtable()).addr())) {
            state.paused_lanes.push(lane.clone());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c9_unread_commands_do_not_pile_up() {
        let run_control = RunControl::default();
        for _ in 0..1_000 {
            [Command::Pause, Command::Cancel("first".into()), Command::Resume]
                .into_iter()
                .for_each(|command| run_control.queue_command(command));
        }
        let commands = run_control.take(Waker::noop()).commands;
        assert!(matches!(&commands[..], [Command::Resume, Command::Cancel(reason)] if reason == "first"));
    }

    #[test]
    fn c9_lane_is_not_stored_after_the_resume_that_would_wake_it() {
        let run_control = RunControl::default();
        run_control.pause();
        assert!(run_control.is_paused());
        // Another thread resumes the run between the check and the lock.
        run_control.resume();
        assert!(!run_control.store_lane(Waker::noop()), "no release would wake it");
        assert!(run_control.lock().paused_lanes.is_empty() && run_control.lock().known.is_empty());
        run_control.pause();
        assert!(run_control.store_lane(Waker::noop()) && run_control.lock().paused_lanes.len() == 1);
    }
}
