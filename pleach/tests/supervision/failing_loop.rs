//! A7 and A9: an actor that fails repeatedly lets others run and can be stopped.

use pleach::BoxError;
use pleach::actor::MESSAGES_PER_POLL_MAX;
use pleach::prelude::*;
use pleach::sim::Sim;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn many_restarts() -> OneForOne {
    OneForOne::new().restart_limit(1_000_000, Duration::from_secs(1))
}

#[test]
fn a9_failing_messages_take_many_polls() {
    const MESSAGES: u32 = 10_000;
    for strategy in [many_restarts(), OneForOne::new().always(SupervisorDirective::Resume)] {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let supervisor = system.supervisor("supervisor", strategy).unwrap();
        let props = Props::from_fn(|| (), |(), _: u32| Err::<(), _>("no"));
        let actor = supervisor.spawn("actor", props.mailbox(Mailbox::unbounded())).unwrap();
        (0..MESSAGES).for_each(|n| actor.tell(n).unwrap());
        let polls = sim.settle();
        assert_eq!(actor.counts().failed, u64::from(MESSAGES));
        assert!(polls >= (MESSAGES / MESSAGES_PER_POLL_MAX) as usize, "{polls} polls");
    }
}

/// Fails in every `started` hook.
struct FailsAtStart(Arc<AtomicU32>);

impl Actor for FailsAtStart {
    type Msg = ();
    type Error = BoxError;

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err("not today".into())
    }
}

#[test]
fn a7_stop_ends_an_actor_whose_start_fails_repeatedly() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let supervisor = system.supervisor("supervisor", many_restarts()).unwrap();
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let actor = supervisor.spawn("actor", Props::new(move || FailsAtStart(Arc::clone(&counted)))).unwrap();
    sim.run(async {
        // This task runs only because the actor yields.
        while starts.load(Ordering::Relaxed) < 2 {
            sim.yield_now().await;
        }
        actor.stop();
        assert_eq!(actor.exited().await, Exit::Stopped);
    });
    assert!(starts.load(Ordering::Relaxed) < 10 * MESSAGES_PER_POLL_MAX);
}
