//! `RunControl`: what the engine, the nodes and the control actor of a run share: commands,
//! queries, and whether nodes may start.

use crate::control::Command;
use crate::control::remote::TellError;
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
    /// No further node may start.
    is_held: AtomicBool,
    state: Mutex<ControlState>,
}

#[derive(Default)]
struct ControlState {
    /// What a run that is not stored was told.
    commands: Vec<Command>,
    questions: Vec<ViewQuery>,
    /// The highest number of a message that is said to be in the store.
    posted: u64,
    /// The task of the run.
    driver: Option<Waker>,
    /// The lanes that are held.
    held: Vec<Waker>,
    /// The same, by what tells their wakers apart.
    known: HashSet<(usize, usize)>,
    /// The run is there to be told things, or is over.
    is_open: bool,
    opening: Option<Waker>,
}

/// Where does the run stand?
pub(crate) type ViewQuery = Reply<Result<RunView, TellError>>;

/// What the engine finds in its `RunControl`.
#[derive(Default)]
pub(crate) struct ControlUpdate {
    pub(crate) commands: Vec<Command>,
    pub(crate) questions: Vec<ViewQuery>,
    pub(crate) posted: u64,
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

    /// From now on the run is in its store, or will never be.
    pub(crate) fn open(&self) {
        let opening = {
            let mut state = self.lock();
            state.is_open = true;
            state.opening.take()
        };
        opening.into_iter().for_each(Waker::wake);
    }

    /// Waits until a stored run is there. The actor beside it is the only one that does.
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

    /// Tells a run that is not stored. As in an inbox, of those to pause and to go on the last one counts, and the first to cancel.
    pub(super) fn tell(&self, command: Command) {
        let cancels = |command: &Command| matches!(command, Command::Cancel(_));
        self.add(|state| match state.commands.iter_mut().find(|known| cancels(known) == cancels(&command)) {
            Some(known) if !cancels(known) => *known = command,
            Some(_) => {}
            None => state.commands.push(command),
        });
    }

    /// Asks a run that is not stored. Whoever has given up asking is forgotten.
    pub(super) fn ask(&self, question: ViewQuery) {
        self.add(|state| {
            state.questions.retain(|question| !question.is_closed());
            state.questions.push(question);
        });
    }

    /// The store has a message of this number.
    pub(super) fn point_to(&self, posted: u64) {
        self.add(|state| state.posted = state.posted.max(posted));
    }

    /// Takes what has come; `driver` is woken by what comes later.
    pub(crate) fn take(&self, driver: &Waker) -> ControlUpdate {
        let mut state = self.lock();
        match &mut state.driver {
            Some(known) => known.clone_from(driver),
            none => *none = Some(driver.clone()),
        }
        let (commands, questions) = (std::mem::take(&mut state.commands), std::mem::take(&mut state.questions));
        ControlUpdate { commands, questions, posted: state.posted }
    }

    /// Lets no further node start.
    pub(crate) fn hold(&self) {
        self.is_held.store(true, Ordering::Relaxed);
    }

    /// Lets nodes start again.
    pub(crate) fn go_on(&self) {
        self.is_held.store(false, Ordering::Relaxed);
        let held = {
            let mut state = self.lock();
            state.known.clear();
            std::mem::take(&mut state.held)
        };
        held.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }

    /// Whether a lane may not start its node. It is woken when it may.
    pub(crate) fn holds(&self, lane: &Waker) -> bool {
        self.is_held() && self.keep_held(lane)
    }

    /// Keeps the waker of a lane that was seen to be held. False if nodes may start by now: such a lane would never be woken.
    fn keep_held(&self, lane: &Waker) -> bool {
        let mut state = self.lock();
        // `go_on` clears the flag before it takes the wakers under this lock.
        if !self.is_held() {
            return false;
        }
        work_count::visit(1);
        // Two wakers with the same data and functions wake the same lane, as `Waker::will_wake` has it. A waker that is kept stays unlike any other.
        if state.known.insert((lane.data().addr(), std::ptr::from_ref(lane.vtable()).addr())) {
            state.held.push(lane.clone());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c9_commands_that_nobody_reads_do_not_pile_up() {
        let run_control = RunControl::default();
        for _ in 0..1_000 {
            [Command::Pause, Command::Cancel("first".into()), Command::Resume]
                .into_iter()
                .for_each(|command| run_control.tell(command));
        }
        let commands = run_control.take(Waker::noop()).commands;
        assert!(matches!(&commands[..], [Command::Resume, Command::Cancel(why)] if why == "first"));
    }

    #[test]
    fn c9_lane_seen_held_before_a_resume_is_not_kept_after_it() {
        let run_control = RunControl::default();
        run_control.hold();
        assert!(run_control.is_held());
        // Another thread resumes the run between the look and the lock.
        run_control.go_on();
        assert!(!run_control.keep_held(Waker::noop()), "nobody would wake it");
        assert!(run_control.lock().held.is_empty() && run_control.lock().known.is_empty());
        run_control.hold();
        assert!(run_control.keep_held(Waker::noop()) && run_control.lock().held.len() == 1);
    }
}
