//! `Runner`: a task of the runtime that polls the tasks of a group, one after the other.
//!
//! Any runner polls any task: a task that is woken goes back into the group's queue. So a group needs as many tasks of the runtime as
//! there are workers for it, and none for each of its own.

use crate::events::cause::Cause;
use crate::group::executor;
use crate::group::executor::{Engine, POLLS_IN_A_ROW_MAX};
use crate::group::runners::{Crew, InHand, Next, Settled};
use crate::group::task_waker::Bound;
use crate::tree::current;
use crate::tree::member::Member;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// How long a runner goes on before it lets others run. Looked at after its 1st, 2nd, 4th, 8th … poll: a clock is not free.
const TIME_IN_A_ROW_MAX: Duration = Duration::from_micros(200);

pub(super) struct Runner<T: Send + 'static> {
    crew: Option<Arc<Crew<T>>>,
    current: Option<Arc<dyn Member>>,
    spare: Option<Bound<Crew<T>>>,
    /// It comes uncalled, for the first time.
    is_reserve: bool,
}

impl<T: Send + 'static> Runner<T> {
    pub(super) fn new(crew: Arc<Crew<T>>, is_reserve: bool) -> Self {
        let current = Some(Arc::clone(&crew) as Arc<dyn Member>);
        Self { crew: Some(crew), current, spare: None, is_reserve }
    }
}

/// Polls a task once, for the first time with the spare bell.
#[inline]
fn run<T: Send + 'static>(crew: &Arc<Crew<T>>, spare: &mut Option<Bound<Crew<T>>>, task: InHand<T>) -> Settled<T> {
    let InHand { work, number, bound, .. } = task;
    let is_first = bound.is_none();
    let bound = bound.or_else(|| spare.take()).unwrap_or_else(|| Bound::new(crew));
    let outer = current::enter_task(crew.address(), bound.waker());
    let polled = executor::poll_task(crew, work, number, &mut Context::from_waker(bound.waker()));
    current::leave_task(outer);
    match polled {
        Err(work) => Settled::Pending(InHand { work, number, bound: Some(bound), runs_on: false }),
        Ok(ended) if is_first => {
            *spare = bound.returned();
            Settled::Ended(ended, None)
        }
        Ok(ended) => Settled::Ended(ended, Some(bound)),
    }
}

/// Polls a task that was cancelled after its first poll, if it may run on; else drops it.
#[cold]
fn run_on<T: Send + 'static>(crew: &Arc<Crew<T>>, (task, cause): (InHand<T>, Cause)) -> Settled<T> {
    let InHand { mut work, number, bound, .. } = task;
    let has_grace = work.as_mut().grace(crew.settings().cancel_grace).is_some();
    let bound = match bound {
        Some(bound) if has_grace => bound,
        bound => return Settled::Ended(executor::cut(crew, work, number, cause), bound),
    };
    bound.clear();
    let outer = current::enter_task(crew.address(), bound.waker());
    let polled = executor::poll_cancelled(crew, work, number, cause, &mut Context::from_waker(bound.waker()));
    current::leave_task(outer);
    match polled {
        Err(work) => Settled::Pending(InHand { work, number, bound: Some(bound), runs_on: true }),
        Ok(ended) => Settled::Ended(ended, Some(bound)),
    }
}

impl<T: Send + 'static> Future for Runner<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { crew, current, spare, is_reserve } = &mut *self;
        let Some(group) = &*crew else { return Poll::Ready(()) };
        let inside = current::enter(current, cx.waker());
        let runtime = group.node().runtime();
        let (began, mut polls, mut left) = (runtime.now(), 0_u32, POLLS_IN_A_ROW_MAX);
        let mut next = group.begin(core::mem::take(is_reserve), cx.waker());
        let polled = loop {
            let settled = match next {
                Next::Poll(task) => run(group, spare, task),
                Next::RunOn(cancelled) => run_on(group, *cancelled),
                Next::Cut(cancelled) => {
                    let (InHand { work, number, bound, .. }, cause) = *cancelled;
                    Settled::Ended(executor::cut(group, work, number, cause), bound)
                }
                Next::Again => {
                    cx.waker().wake_by_ref();
                    break Poll::Pending;
                }
                Next::Park => break Poll::Pending,
                Next::End => break Poll::Ready(()),
            };
            polls += 1;
            left = left.saturating_sub(1);
            if polls.is_power_of_two() && runtime.now().since(began) > TIME_IN_A_ROW_MAX {
                left = 0;
            }
            next = group.settle(settled, &mut left, cx.waker());
        };
        drop(inside);
        if polled.is_ready() {
            *crew = None;
        }
        polled
    }
}

/// A runner that is dropped before its end was dropped by a runtime that goes away.
impl<T: Send + 'static> Drop for Runner<T> {
    fn drop(&mut self) {
        if let Some(crew) = self.crew.take() {
            crew.abandon();
        }
    }
}
