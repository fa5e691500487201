//! Events that hit many members of the tree at once: failures above the limit, restarts of a group,
//! deep chains, a cancel.
//!
//! Only pleach has these rows. They show whether the cost per member is the same at 1k, 10k and
//! 100k.

use std::time::Duration;

use pleach::supervise::{OneForAll, OneForOne, SupervisorDirective};
use pleach::{Actor, ActorRef, ActorSystem, BoxError, Cause, Context, FailureInfo, Props, Supervisor};

use crate::ground::{Place, Tally, timed};

/// The kinds of growth workloads. One operation is one member.
#[derive(Clone, Copy)]
pub enum Growth {
    /// All children of a supervisor fail at once, which exceeds its limit, so it stops.
    Exceeded,
    /// One child fails, and all restart.
    OneForAll,
    /// Actors are started, each the child of the one before, and stopped.
    Chain,
    /// Nested supervisors restart as a whole.
    Supervisors,
    /// Idle actors are cancelled.
    Kill,
}

pub fn run(growth: Growth, members: u64) -> Duration {
    Place::Current.run(async move {
        let system = ActorSystem::new("growth").expect("the current thread has a runtime");
        match growth {
            Growth::Exceeded => exceeded(&system, members).await,
            Growth::OneForAll => one_for_all(&system, members).await,
            Growth::Chain => chain(&system, members).await,
            Growth::Supervisors => supervisors(&system, members).await,
            Growth::Kill => kill(system, members).await,
        }
    })
}

/// An actor that counts its starts and fails at each message.
fn fragile(starts: &Tally) -> Props<impl Actor<Msg = ()> + use<>> {
    let starts = starts.clone();
    Props::from_fn(move || starts.hit(), |(), ()| Err::<(), BoxError>("failed on purpose".into()))
}

async fn started(supervisor: &Supervisor, members: u64) -> (Vec<ActorRef<()>>, Tally) {
    let starts = Tally::to(members);
    let actors =
        (0..members).map(|_| supervisor.spawn_unnamed(fragile(&starts)).expect("the supervisor takes actors")).collect();
    starts.reached().await;
    (actors, starts)
}

async fn exceeded(system: &ActorSystem, members: u64) -> Duration {
    let above = system.supervisor("above", |_: &FailureInfo| SupervisorDirective::Stop).expect("the name is free");
    let supervisor = above.supervisor("children", OneForOne::new()).expect("the name is free");
    let (actors, _) = started(&supervisor, members).await;
    timed(async move {
        actors.iter().for_each(|actor| actor.tell(()).expect("the actor lives"));
        supervisor.any().exited().await;
    })
    .await
}

async fn one_for_all(system: &ActorSystem, members: u64) -> Duration {
    let supervisor = system.supervisor("children", OneForAll::new()).expect("the name is free");
    let starts = Tally::to(2 * members);
    let actors: Vec<_> =
        (0..members).map(|_| supervisor.spawn_unnamed(fragile(&starts)).expect("the supervisor takes actors")).collect();
    tokio::task::yield_now().await;
    timed(async move {
        actors[actors.len() / 2].tell(()).expect("the actor lives");
        starts.reached().await;
    })
    .await
}

struct Link {
    left: u64,
    last: Tally,
}

impl Actor for Link {
    type Msg = ();
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let (left, last) = (self.left, self.last.clone());
        if left == 0 {
            last.hit();
        } else {
            cx.spawn_unnamed(Props::new(move || Link { left: left - 1, last: last.clone() }))?;
        }
        Ok(())
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

async fn chain(system: &ActorSystem, members: u64) -> Duration {
    let last = Tally::to(1);
    let system = system.user_guardian();
    timed(async move {
        let hit = last.clone();
        let props = Props::new(move || Link { left: members - 1, last: hit.clone() });
        let first = system.spawn_unnamed(props).expect("the system takes actors");
        last.reached().await;
        first.stop();
        first.exited().await;
    })
    .await
}

async fn supervisors(system: &ActorSystem, members: u64) -> Duration {
    let top = system.supervisor("top", OneForOne::new()).expect("the name is free");
    let mut inner = top.supervisor("inner", OneForOne::new()).expect("the name is free");
    for _ in 1..members {
        inner = inner.supervisor("inner", OneForOne::new()).expect("the name is free");
    }
    let starts = Tally::to(2);
    inner.spawn_unnamed(fragile(&starts)).expect("the supervisor takes actors");
    tokio::task::yield_now().await;
    timed(async move {
        top.restart_child("inner").expect("it is there");
        starts.reached().await;
    })
    .await
}

async fn kill(system: ActorSystem, members: u64) -> Duration {
    let supervisor = system.supervisor("children", OneForOne::new()).expect("the name is free");
    drop(started(&supervisor, members).await);
    timed(async move {
        system.cancel(Cause::Cancelled);
        system.ended().await.expect("it was cancelled from outside");
    })
    .await
}
