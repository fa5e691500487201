//! The wait between two incarnations: for a backoff to pass, or for the guardian to bring the actor's group up again.

use crate::actor::Actor;
use crate::actor::cell::Cell;
use crate::actor::cell::task::{ActorTask, ExitKind, Stage, StageEnd};
use crate::base::runtime::BoxFuture;
use crate::events::cause::Exit;
use crate::mailbox::control;
use crate::supervise::decide::RestartPolicy;
use crate::supervise::restart_plan::Report;
use crate::tree::member::Member;
use crate::tree::{supervision, waits};
use alloc::sync::Arc;
use core::task::{Context, Poll};
use core::time::Duration;

/// Why an actor has not begun its next incarnation.
#[derive(Default)]
pub(super) struct RestartWait {
    /// For so long; taken when the wait begins, which is when the incarnation before has ended.
    pub(super) backoff: Duration,
    sleep: Option<BoxFuture<'static, ()>>,
    /// Until it is told to start.
    pub(super) for_group: bool,
    /// Its group waits to hear that it has halted.
    pub(super) owes_report: bool,
}

impl<A: Actor> ActorTask<A> {
    /// The state is gone and another is to follow: at once, or after a wait.
    pub(super) fn restart_or_wait(&mut self, cell: &Cell<A::Msg>) {
        let paused = self.details.as_ref().is_some_and(|details| details.restart_wait.is_some());
        if paused || cell.mailbox.control_word() & control::HALT != 0 {
            self.wait(cell);
        } else {
            self.begin_next_incarnation(cell, false);
        }
    }

    pub(super) fn wait(&mut self, cell: &Cell<A::Msg>) {
        self.details().restart_wait.get_or_insert_default();
        // A cancel reaches an actor that waits like one that runs.
        cell.mailbox.raise_silently(control::WAITING_TO_RESTART);
        cell.mailbox.clear_bits(control::ENDING);
        self.stage = Stage::WaitToRestart;
    }

    /// The wait is over, or was cut short.
    pub(super) fn after_wait(&mut self, cell: &Cell<A::Msg>, end: StageEnd) {
        self.details().restart_wait = None;
        cell.mailbox.clear_bits(control::WAITING_TO_RESTART);
        match end {
            StageEnd::Done => return self.begin_next_incarnation(cell, true),
            StageEnd::Cancelled | StageEnd::CancelledAtAwait(_) | StageEnd::Failed(_) => {
                return self.begin_cancelled_exit(cell);
            }
            _ => {}
        }
        // Whoever failed and was not started again ends with that failure.
        match self.details().exit.take() {
            Some(exit @ Exit::Failed(_)) => self.begin_exit_with(cell, ExitKind::Fail, exit),
            _ => self.begin_exit(cell, ExitKind::Stop),
        }
    }

    /// Ready when the next incarnation may begin (`Done`), or the actor is to end without one (`Stopped`, `Cancelled`).
    pub(super) fn poll_wait(&mut self, cell: &Arc<Cell<A::Msg>>, cx: &mut Context<'_>) -> Poll<StageEnd> {
        loop {
            let (word, closed) = (cell.mailbox.control_word(), cell.mailbox.is_closed());
            // It may have come since the actor was last found not to be cut off, and nobody would wake it again for that.
            if word & control::CANCEL != 0 {
                return Poll::Ready(StageEnd::Cancelled);
            }
            let for_good = word & control::FINAL != 0;
            if word & control::STOP != 0 && (for_good || cell.node.policy() != RestartPolicy::Permanent) {
                return Poll::Ready(StageEnd::Stopped);
            }
            // The supervisor ends its children's input: what is queued is to be handled, and nobody is going to say start.
            if word & control::START != 0 || (for_good && closed) {
                cell.mailbox.clear_bits(if for_good { control::START | control::HALT } else { control::START });
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
                    if supervision::report(&cell.node, Report::Halted) {
                        waits::break_cycles_of(self.cx.cell().waits_for());
                    }
                    continue;
                }
            }
            if cell.mailbox.park_until_control_changes(cx.waker(), word, closed) {
                return cell.mark_parked(Poll::Pending);
            }
        }
    }

    /// The incarnation is up. Whoever waited for that hears of it, and the strategy if there was one before.
    pub(super) fn announce_start(&self, cell: &Cell<A::Msg>) {
        self.report_started(cell);
        if let Some(notice) = cell.options.as_deref().and_then(|options| options.start_notice.as_deref()) {
            notice.notify();
        }
        if self.cx.incarnation() > 0 {
            let child = Arc::clone(self.cx.cell()) as Arc<dyn Member>;
            supervision::call_hook(&child, |strategy, child| strategy.after_restart(child));
        }
        if cell.mailbox.control_word() & control::REPORT_START != 0 {
            cell.mailbox.clear_bits(control::REPORT_START);
            supervision::report(&cell.node, Report::Started);
        }
    }
}

impl RestartWait {
    pub(super) fn of(backoff: Duration, for_group: bool) -> Option<Self> {
        (for_group || !backoff.is_zero()).then_some(Self { backoff, sleep: None, for_group, owes_report: for_group })
    }

    fn poll_backoff<M>(&mut self, cell: &Cell<M>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.backoff.is_zero() {
            let runtime = cell.node.runtime();
            self.sleep = Some(runtime.sleep_until(runtime.now() + core::mem::take(&mut self.backoff)));
        }
        let Some(sleep) = &mut self.sleep else { return Poll::Ready(()) };
        let polled = sleep.as_mut().poll(cx);
        if polled.is_ready() {
            self.sleep = None;
        }
        polled
    }
}

/// What a supervisor does to an actor that is one of a group.
impl<M: Send + 'static> Cell<M> {
    /// Ends the incarnation, to start again when told; a temporary one ends for good.
    pub(super) fn halt_for_group(self: Arc<Self>) {
        if self.node.policy() == RestartPolicy::Temporary {
            return self.stop_by(crate::tree::member::StopMode::Stop);
        }
        self.mailbox.clear_bits(control::START);
        self.raise(control::HALT);
    }

    pub(super) fn start_with_group(&self) {
        self.mailbox.clear_bits(control::HALT);
        self.raise(control::START | control::REPORT_START);
    }
}

/// Orders that come at moments which only threads can find; the simulator would never.
#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::actor::actor_ref::ActorRef;
    use crate::actor::props::Props;
    use crate::base::reason::{BoxError, Reason};
    use crate::dispatcher::Dispatcher;
    use crate::scope::Scope;
    use crate::scope::supervisor::Supervisor;
    use crate::supervise::restart_plan::RestartPlan;
    use crate::tree::supervision::ChildAction;
    use crate::tree::supervision::strategy::OneForAll;

    fn crew_of_one(sim: &Dispatcher) -> (Scope, Supervisor, ActorRef<()>) {
        let scope = Scope::under(&crate::CancelToken::root(sim.runtime()));
        let crew = scope.supervisor("crew", OneForAll::new()).unwrap();
        let actor = crew.spawn("one", Props::from_fn(|| (), |(), ()| Ok::<(), BoxError>(()))).unwrap();
        sim.drain_ready();
        (scope, crew, actor)
    }

    /// A plan says start, its supervisor closes, the actor starts to hand in what it has, and only then looks at the plan's word.
    #[test]
    fn s13_a_late_word_to_start_does_not_keep_an_actor_busy() {
        let sim = Dispatcher::seeded(1);
        let (_scope, _crew, actor) = crew_of_one(&sim);
        let cell = actor.cell();
        cell.raise(control::START | control::REPORT_START);
        sim.drain_ready();
        assert_eq!(cell.mailbox.control_word() & control::START, 0);
        actor.tell(()).unwrap();
        sim.drain_ready();
        assert_eq!(actor.counts().handled, 1);
    }

    /// A failure below becomes the actor's own, so that its group goes down, while the actor is about to restart for another reason.
    #[test]
    fn s13_a_group_hears_that_an_actor_has_halted_although_it_restarts_for_another_reason() {
        let sim = Dispatcher::seeded(1);
        let (_scope, crew, actor) = crew_of_one(&sim);
        let (cell, parent) = (actor.cell(), crew.any().member);
        let members = core::iter::once((cell.node.id(), Arc::clone(cell) as Arc<dyn Member>));
        let plan = RestartPlan::new(members, None).after_failure_of(cell.node.id());
        parent.node().with_supervision(|guardian| guardian.regroup = Some(alloc::boxed::Box::new(plan)));
        let failure = cell.node.failure(0, Reason::Error("below".into()));
        cell.node.keep_verdict(ChildAction::Wait(Duration::ZERO), failure);
        cell.raise(control::RESTART);
        sim.drain_ready();
        assert!(parent.node().with_supervision(|guardian| guardian.regroup.is_none()), "the plan has come to its end");
        actor.tell(()).unwrap();
        sim.drain_ready();
        assert_eq!((actor.counts().handled, actor.exit()), (1, None));
    }

    /// A child leaves after somebody listed the children for a plan, and before the plan is there to be told.
    #[test]
    fn s13_whoever_left_before_the_plan_was_there_is_not_waited_for() {
        let sim = Dispatcher::seeded(1);
        let (_scope, crew, actor) = crew_of_one(&sim);
        let leaves = crew.spawn("leaves", Props::from_fn(|| (), |(), ()| Ok::<(), BoxError>(()))).unwrap();
        sim.drain_ready();
        let parent = crew.any().member;
        let listed = parent.node().children();
        leaves.stop();
        sim.drain_ready();
        let members = listed.into_iter().map(|member| (member.node().id(), member));
        assert!(parent.node().replan(|before| RestartPlan::new(members, before)).is_ok_and(|replaced| replaced.is_none()));
        supervision::advance(&parent);
        sim.drain_ready();
        assert!(parent.node().with_supervision(|guardian| guardian.regroup.is_none()), "the plan has come to its end");
        actor.tell(()).unwrap();
        sim.drain_ready();
        assert_eq!(actor.counts().handled, 1);
    }
}
