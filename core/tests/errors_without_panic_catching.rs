//! S9: every returned error reaches the supervisor, also without panic catching. This test also
//! runs without default features, where core is `no_std` and cannot catch panics.

use pleach_core::{Actor, BoxError, Context, Dispatcher, Exit, FailureInfo, OneForOne, Props, SupervisorDirective, System};
use std::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<String>>>;

/// Fails in `started` of its first incarnation if requested, on every message but "ok", and in its
/// other hooks.
struct FailingActor {
    at_start: bool,
    log: Log,
}

impl Actor for FailingActor {
    type Msg = &'static str;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.lock().unwrap().push(format!("started {}", cx.incarnation()));
        if self.at_start && cx.incarnation() == 0 { Err("at start".into()) } else { Ok(()) }
    }

    async fn handle(&mut self, message: &'static str, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.lock().unwrap().push(message.to_string());
        if message == "ok" { Ok(()) } else { Err(message.into()) }
    }

    async fn restarting(&mut self, _failure: &FailureInfo, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err("while restarting".into())
    }

    async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err("while stopping".into())
    }
}

#[test]
fn s9_every_returned_error_reaches_the_supervisor() {
    let dispatcher = Dispatcher::seeded(1);
    let system = System::builder("s", dispatcher.runtime()).build().unwrap();
    let (log, decisions) = (Log::default(), Log::default());
    let seen = Arc::clone(&decisions);
    let strategy = OneForOne::new().deciding(move |failure| {
        seen.lock().unwrap().push(failure.reason().to_string());
        SupervisorDirective::Restart
    });
    let supervisor = system.supervisor("supervisor", strategy).unwrap();
    let entries = Arc::clone(&log);
    let actor =
        supervisor.spawn("fails", Props::new(move || FailingActor { at_start: true, log: Arc::clone(&entries) })).unwrap();
    actor.tell("fail").unwrap();
    actor.tell("ok").unwrap();
    dispatcher.drain_ready();
    assert_eq!(*decisions.lock().unwrap(), ["at start", "fail"]);
    assert_eq!(*log.lock().unwrap(), ["started 0", "started 1", "fail", "started 2", "ok"]);
    // Two failures with a decision, and two hooks of each ended incarnation: six records.
    assert_eq!((system.failures(), actor.counts().handled, actor.counts().failed), (6, 1, 1));
    for _ in 0..3 {
        actor.tell("fail").unwrap();
    }
    dispatcher.drain_ready();
    assert!(matches!(actor.exit(), Some(Exit::Failed(_))), "the restart limit is exceeded");
    assert_eq!((system.unhandled(), system.take_escalations().failures[0].reason().to_string()), (1, "fail".to_string()));
}
