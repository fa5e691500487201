//! The wait between two incarnations: for a backoff, or for the supervisor's restart plan to
//! restart the whole group; then the next start.

use crate::actor::cell::AnyCell;
use crate::actor::cell::lifecycle::{ExitKind, Stage, StageEnd};
use crate::actor::cell::task::{AnyTask, Phase};
use crate::actor::stash::StashedIn;
use crate::base::sleep::Sleep;
use crate::events::cause::Exit;
use crate::events::event::Event;
use crate::mailbox::control;
use crate::supervise::decide::RestartPolicy;
use crate::supervise::restart_plan::ChildReport;
use crate::tree::node::Node;
use crate::tree::supervision::{ChildAction, Supervision};
use crate::tree::waits::ask_error::AskError;
use crate::tree::{supervision, waits};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// What the next incarnation waits for.
#[derive(Default)]
pub(super) struct RestartWait {
    /// The backoff. It starts, and is set to zero, when the wait begins, after the last incarnation
    /// has ended.
    pub(super) backoff: Duration,
    sleep: Option<Sleep>,
    /// Whether to wait for `START` from the restart plan.
    pub(super) for_group: bool,
    /// Whether the restart plan waits for the report that this actor has halted.
    pub(super) owes_report: bool,
}

impl AnyTask {
    /// After the state was dropped: restarts at once, or waits first.
    pub(super) fn restart_or_wait(&mut self, cell: &AnyCell) {
        let must_wait = self.details.as_ref().is_some_and(|details| details.restart_wait.is_some());
        if must_wait || cell.mailbox.control_word() & control::HALT != 0 {
            self.begin_restart_wait(cell);
        } else {
            self.begin_next_incarnation(cell, false);
        }
    }

    /// Begins the wait.
    pub(super) fn begin_restart_wait(&mut self, cell: &AnyCell) {
        self.details().restart_wait.get_or_insert_default();
        // Without `ENDING`, a cancel ends the wait as it ends a running actor.
        cell.mailbox.raise_silently(control::WAITING_TO_RESTART);
        cell.mailbox.clear_bits(control::ENDING);
        self.stage = Stage::WaitToRestart;
    }

    /// Settles the end of the wait: starts the next incarnation, or begins the exit.
    pub(super) fn after_wait(&mut self, cell: &AnyCell, end: StageEnd) {
        self.details().restart_wait = None;
        cell.mailbox.clear_bits(control::WAITING_TO_RESTART);
        match end {
            StageEnd::Done => return self.begin_next_incarnation(cell, true),
            StageEnd::Cancelled | StageEnd::CancelledAtAwait(_) | StageEnd::Failed(_) => {
                return self.begin_cancelled_exit(cell);
            }
            _ => {}
        }
        // An actor that failed and is not restarted exits with that failure.
        match self.details().exit.take() {
            Some(exit @ Exit::Failed(_)) => self.begin_exit_with(cell, ExitKind::Fail, exit),
            _ => self.begin_exit(cell, ExitKind::Stop),
        }
    }

    /// Polls the wait. Ready with `Done` when the next incarnation may begin, and with `Stopped` or
    /// `Cancelled` when the actor must exit without one.
    pub(super) fn poll_wait(&mut self, cell: &AnyCell, cx: &mut Context<'_>) -> Poll<StageEnd> {
        loop {
            let (word, closed) = (cell.mailbox.control_word(), cell.mailbox.is_closed());
            // The cancel may have arrived after the guard last checked for it; it would not be
            // woken again.
            if word & control::CANCEL != 0 {
                return Poll::Ready(StageEnd::Cancelled);
            }
            if word & control::DRAINED != 0 {
                cell.report_drained();
                continue;
            }
            let is_final = word & control::FINAL != 0;
            if word & control::STOP != 0 && (is_final || cell.node().policy() != RestartPolicy::Permanent) {
                return Poll::Ready(StageEnd::Stopped);
            }
            // If the supervisor closes its children, the queued messages must be handled, and no
            // `START` follows.
            if word & control::START != 0 || (is_final && closed) {
                cell.mailbox.clear_bits(if is_final { control::START | control::HALT } else { control::START });
                return Poll::Ready(StageEnd::Done);
            }
            let restart_wait = self.details().restart_wait.get_or_insert_default();
            if word & control::HALT != 0 {
                cell.mailbox.clear_bits(control::HALT);
                (restart_wait.for_group, restart_wait.owes_report) = (true, true);
            }
            if restart_wait.poll_backoff(cell, cx).is_ready() {
                if !restart_wait.for_group {
                    return Poll::Ready(StageEnd::Done);
                }
                if core::mem::take(&mut restart_wait.owes_report) {
                    if supervision::report(cell.node(), ChildReport::Halted) {
                        waits::break_cycles_of(cell.waits_for());
                    }
                    continue;
                }
            }
            if cell.mailbox.park_until_control_changes(cx.waker(), word, closed) {
                return cell.mark_parked(Poll::Pending);
            }
        }
    }

    /// Begins the next incarnation, unless the actor must exit after all.
    pub(super) fn begin_next_incarnation(&mut self, cell: &AnyCell, waited: bool) {
        match cell.node().take_action() {
            // A child's failure of the last incarnation does not fail the next one, but a decision
            // to stop still applies.
            Some((ChildAction::Stop | ChildAction::Escalate { .. }, failure)) => {
                self.begin_exit_with(cell, ExitKind::Fail, Exit::Failed(failure));
            }
            // The restart plan waits until this actor reports that it has halted.
            Some((ChildAction::Wait(wait), failure)) if !waited => {
                let details = self.details();
                (details.restart_wait, details.exit) = (RestartWait::new(wait, true), Some(Exit::Failed(failure)));
                self.begin_restart_wait(cell);
            }
            _ if cell.node().reopen() => {
                let exit = || self.details.as_ref().and_then(|details| details.exit.clone());
                cell.answer_unanswered(|| exit().map_or(AskError::Dropped, AskError::from));
                if let Some(details) = &mut self.details {
                    (details.exit, details.failure) = (None, None);
                }
                cell.mailbox.clear_bits(control::ENDING | control::CHILD_FAILED | control::RESTART);
                cell.node().existing_supervision(Supervision::forget_restarts);
                self.part.next_incarnation();
                cell.note_incarnation(self.part.incarnation());
                self.turns.set_suspended(false);
                self.stage = Stage::Run;
            }
            _ => self.begin_cancelled_exit(cell),
        }
    }

    /// After `started` has returned `Ok`: settles the stash and announces the start.
    pub(super) fn finish_start(&mut self, cell: &AnyCell, incarnation: u32) {
        self.settle_stash(cell, StashedIn::Hook);
        self.phase = Phase::Busy;
        self.announce_start(cell, incarnation);
    }

    /// Reports the start: as an event, to `spawn_started`, to the strategy if this is a restart,
    /// and to the restart plan if it waits for it.
    fn announce_start(&self, cell: &AnyCell, incarnation: u32) {
        report_started(cell.node(), incarnation);
        if let Some(notice) = cell.options().and_then(|options| options.start_notice.clone()) {
            notice.notify();
        }
        if incarnation > 0 {
            let child = self.part.member();
            supervision::call_hook(&child, |strategy, child| strategy.after_restart(child));
        }
        if cell.mailbox.control_word() & control::REPORT_START != 0 {
            cell.mailbox.clear_bits(control::REPORT_START);
            supervision::report(cell.node(), ChildReport::Started);
        }
    }
}

/// Reports the start or restart as an event.
fn report_started(node: &Node, incarnation: u32) {
    node.report_lifecycle(|| match incarnation {
        0 => Event::Started { path: node.path() },
        _ => Event::Restarted { path: node.path(), incarnation },
    });
}

impl RestartWait {
    /// Returns `None` if there is nothing to wait for.
    pub(super) fn new(backoff: Duration, for_group: bool) -> Option<Self> {
        (for_group || !backoff.is_zero()).then_some(Self { backoff, sleep: None, for_group, owes_report: for_group })
    }

    fn poll_backoff(&mut self, cell: &AnyCell, cx: &mut Context<'_>) -> Poll<()> {
        if !self.backoff.is_zero() {
            let runtime = &cell.node().tree().runtime;
            let at = runtime.now() + core::mem::take(&mut self.backoff);
            cell.note_restart_at(at);
            self.sleep = Some(Sleep::until(runtime, at));
        }
        let Some(sleep) = &mut self.sleep else { return Poll::Ready(()) };
        let polled = Pin::new(sleep).poll(cx);
        if polled.is_ready() {
            self.sleep = None;
        }
        polled
    }
}

/// Commands of a supervisor to an actor that restarts together with its siblings.
impl AnyCell {
    /// Ends the incarnation, to start again on command.
    pub(super) fn halt_for_group(&self) {
        self.mailbox.clear_bits(control::START);
        self.raise(control::HALT);
    }

    /// Starts the next incarnation, and requests a report of the start.
    pub(super) fn start_with_group(&self) {
        self.mailbox.clear_bits(control::HALT);
        self.raise(control::START | control::REPORT_START);
    }
}

/// Commands that arrive at moments which only threads can produce, and the simulator cannot.
#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::actor::actor_ref::ActorRef;
    use crate::actor::props::Props;
    use crate::base::reason::{BoxError, Reason};
    use crate::base::sync::{Arc, unsize};
    use crate::dispatcher::Dispatcher;
    use crate::scope::Scope;
    use crate::scope::supervisor::Supervisor;
    use crate::supervise::restart_plan::RestartPlan;
    use crate::tree::member::Member;
    use crate::tree::supervision::strategy::OneForAll;

    fn group_of_one(sim: &Dispatcher) -> (Scope, Supervisor, ActorRef<()>) {
        let scope = Scope::under(&crate::tree::token::CancelToken::root(sim.runtime()));
        let supervisor = scope.supervisor("workers", OneForAll::new()).unwrap();
        let actor = supervisor.spawn("one", Props::from_fn(|| (), |(), ()| Ok::<(), BoxError>(()))).unwrap();
        sim.drain_ready();
        (scope, supervisor, actor)
    }

    /// A plan commands a start, its supervisor closes, the actor starts to handle its queue, and
    /// only then reads the command.
    #[test]
    fn s13_late_start_command_does_not_keep_an_actor_busy() {
        let sim = Dispatcher::seeded(1);
        let (_scope, _supervisor, actor) = group_of_one(&sim);
        let cell = actor.cell();
        cell.any().raise(control::START | control::REPORT_START);
        sim.drain_ready();
        assert_eq!(cell.mailbox.control_word() & control::START, 0);
        actor.tell(()).unwrap();
        sim.drain_ready();
        assert_eq!(actor.counts().handled, 1);
    }

    /// A child's failure becomes the actor's own, so its group halts, while the actor already
    /// restarts for another reason.
    #[test]
    fn s13_group_learns_of_a_halt_during_another_restart() {
        let sim = Dispatcher::seeded(1);
        let (_scope, supervisor, actor) = group_of_one(&sim);
        let (cell, parent) = (actor.cell(), supervisor.any().member);
        let members = core::iter::once((cell.node().id(), unsize!(Arc::clone(cell) => dyn Member)));
        let plan = RestartPlan::new(members, None).after_failure_of(cell.node().id());
        parent.node().with_supervision(|supervision| supervision.restart_plan = Some(alloc::boxed::Box::new(plan)));
        let failure = cell.node().failure(0, Reason::Error("below".into()));
        cell.node().keep_action(ChildAction::Wait(Duration::ZERO), failure);
        cell.any().raise(control::RESTART);
        sim.drain_ready();
        assert!(parent.node().with_supervision(|supervision| supervision.restart_plan.is_none()), "the plan is complete");
        actor.tell(()).unwrap();
        sim.drain_ready();
        assert_eq!((actor.counts().handled, actor.exit()), (1, None));
    }

    /// A child leaves after the children were listed for a plan, and before the plan is installed.
    #[test]
    fn s13_plan_does_not_wait_for_a_child_that_left_before() {
        let sim = Dispatcher::seeded(1);
        let (_scope, supervisor, actor) = group_of_one(&sim);
        let leaves = supervisor.spawn("leaves", Props::from_fn(|| (), |(), ()| Ok::<(), BoxError>(()))).unwrap();
        sim.drain_ready();
        let parent = supervisor.any().member;
        let listed = parent.node().children();
        leaves.stop();
        sim.drain_ready();
        let members = listed.into_iter().map(|member| (member.node().id(), member));
        assert!(
            parent.node().set_restart_plan(|before| RestartPlan::new(members, before)).is_ok_and(|replaced| replaced.is_none())
        );
        supervision::advance(&parent);
        sim.drain_ready();
        assert!(parent.node().with_supervision(|supervision| supervision.restart_plan.is_none()), "the plan is complete");
        actor.tell(()).unwrap();
        sim.drain_ready();
        assert_eq!(actor.counts().handled, 1);
    }
}
