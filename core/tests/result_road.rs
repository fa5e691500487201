//! S9: without panic catching, a returned error carries every failure to the guardian. Run without default features too, where core is
//! `no_std` and has nothing to catch panics with.

use pleach_core::{Actor, BoxError, Context, Dispatcher, Exit, FailureInfo, OneForOne, Props, SupervisorDirective, System};
use std::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<String>>>;

/// Fails in the hook or the message it is told to.
struct Fails {
    at_start: bool,
    log: Log,
}

impl Actor for Fails {
    type Msg = &'static str;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.lock().unwrap().push(format!("started {}", cx.incarnation()));
        if self.at_start && cx.incarnation() == 0 { Err("at start".into()) } else { Ok(()) }
    }

    async fn handle(&mut self, told: &'static str, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.lock().unwrap().push(told.to_string());
        if told == "well" { Ok(()) } else { Err(told.into()) }
    }

    async fn restarting(&mut self, _failure: &FailureInfo, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err("while restarting".into())
    }

    async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err("while stopping".into())
    }
}

#[test]
fn s9_every_returned_error_reaches_the_guardian_with_or_without_panic_catching() {
    let dispatcher = Dispatcher::seeded(1);
    let system = System::builder("s", dispatcher.runtime()).build().unwrap();
    let (log, asked) = (Log::default(), Log::default());
    let seen = Arc::clone(&asked);
    let strategy = OneForOne::new().deciding(move |failure| {
        seen.lock().unwrap().push(failure.reason().to_string());
        SupervisorDirective::Restart
    });
    let crew = system.supervisor("crew", strategy).unwrap();
    let notes = Arc::clone(&log);
    let actor = crew.spawn("fails", Props::new(move || Fails { at_start: true, log: Arc::clone(&notes) })).unwrap();
    actor.tell("badly").unwrap();
    actor.tell("well").unwrap();
    dispatcher.drain_ready();
    assert_eq!(*asked.lock().unwrap(), ["at start", "badly"]);
    assert_eq!(*log.lock().unwrap(), ["started 0", "started 1", "badly", "started 2", "well"]);
    // Two that were decided about, and the two hooks of each incarnation that ended: every one is on record.
    assert_eq!((system.failures(), actor.counts().handled, actor.counts().failed), (6, 1, 1));
    for _ in 0..3 {
        actor.tell("badly").unwrap();
    }
    dispatcher.drain_ready();
    assert!(matches!(actor.exit(), Some(Exit::Failed(_))), "the budget is used up");
    assert_eq!((system.unhandled(), system.take_escalations().failures[0].reason().to_string()), (1, "badly".to_string()));
}
