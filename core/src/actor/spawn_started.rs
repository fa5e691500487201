//! [`SpawnStarted`]: spawns an actor and waits until its `started` hook has returned.

use crate::actor::actor_ref::ActorRef;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::{Actor, spawn};
use crate::base::lock::Lock;
use crate::base::sync::Arc;
use crate::base::wakers;
use crate::base::wakers::ClonedWaker;
use crate::events::cause::Exit;
use crate::ids::path::ActorPath;
use crate::tree::any_ref::Exited;
use crate::tree::member::Member;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

/// Set once by the actor's task, when `started` has returned `Ok`.
pub(crate) struct StartNotice(Lock<StartNoticeState>);

#[derive(Default)]
struct StartNoticeState {
    started: bool,
    waker: Option<Waker>,
}

impl StartNotice {
    fn new() -> Arc<Self> {
        Arc::new(Self(Lock::new(StartNoticeState::default())))
    }

    pub(crate) fn notify(&self) {
        let waker = self.0.with(|state| {
            state.started = true;
            state.waker.take()
        });
        wakers::wake_each(waker);
    }

    fn poll(&self, waker: &Waker) -> bool {
        let mut waker = ClonedWaker::of(waker);
        self.0.with(|state| {
            waker.put(&mut state.waker);
            state.started
        })
    }
}

/// The future of `spawn_started`: ready once the actor's `started` hook has returned `Ok`.
///
/// If `started` fails and the supervisor restarts the actor, the future keeps waiting. Dropping the
/// future does not affect the actor.
///
/// # Errors
/// [`SpawnStartedError`] if the actor was not spawned, or ended before `started` returned `Ok`.
///
/// # Panics
/// If polled again after it was ready.
#[must_use = "futures do nothing unless awaited"]
pub struct SpawnStarted<A: Actor> {
    spawned: Option<Result<Spawned<A::Msg>, SpawnError<A>>>,
}

struct Spawned<M: Send + 'static> {
    actor: ActorRef<M>,
    exited: Exited,
    start_notice: Arc<StartNotice>,
}

/// Spawns an actor below `parent` and returns the future that waits for its start.
pub(crate) fn actor<A: Actor>(parent: &Arc<dyn Member>, name: &str, props: Props<A>) -> SpawnStarted<A> {
    let start_notice = StartNotice::new();
    let spawned = spawn::actor(parent, Some(name), props.notify_start(&start_notice));
    SpawnStarted { spawned: Some(spawned.map(|actor| Spawned { exited: actor.exited(), actor, start_notice })) }
}

// The fields are moved and never pinned.
impl<A: Actor> Unpin for SpawnStarted<A> {}

impl<A: Actor> Future for SpawnStarted<A> {
    type Output = Result<ActorRef<A::Msg>, SpawnStartedError<A>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.spawned.take().expect("`SpawnStarted` was polled after it was ready") {
            Err(refused) => Poll::Ready(Err(SpawnStartedError::Refused(refused))),
            Ok(mut spawned) => {
                if spawned.start_notice.poll(cx.waker()) {
                    return Poll::Ready(Ok(spawned.actor));
                }
                if let Poll::Ready(exit) = Pin::new(&mut spawned.exited).poll(cx) {
                    return Poll::Ready(Err(SpawnStartedError::Ended { path: spawned.actor.path(), exit }));
                }
                self.spawned = Some(Ok(spawned));
                Poll::Pending
            }
        }
    }
}

/// The error of `spawn_started`: the actor did not start.
#[non_exhaustive]
pub enum SpawnStartedError<A: Actor> {
    /// The actor was not spawned; this error returns its props.
    Refused(SpawnError<A>),
    /// The actor ended before `started` returned `Ok`: it failed and was not restarted, or it was
    /// stopped or cancelled.
    Ended {
        /// The path that the actor had.
        path: ActorPath,
        /// The exit of the actor.
        exit: Exit,
    },
}

impl<A: Actor> fmt::Display for SpawnStartedError<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "{error}"),
            Self::Ended { path, exit } => write!(f, "{path} ended before it had started: {exit}"),
        }
    }
}

impl<A: Actor> fmt::Debug for SpawnStartedError<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpawnStartedError({self})")
    }
}

impl<A: Actor> core::error::Error for SpawnStartedError<A> {}
