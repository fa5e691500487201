//! T13: the shutdown token, and the members that the error of a late shutdown lists.

use crate::common::{Gate, Job, Log, TestActor};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::system::ShutdownError;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn t13_late_shutdown_lists_the_late_member_and_no_guardian() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let late = TestActor::spawn(&system, "late");
        late.tell(Job::Pass(Gate::new(), 1)).unwrap();
        sim.settle();
        let error = sim.run(system.shutdown(SECOND)).unwrap_err();
        let ShutdownError::Late(running) = &error else { panic!("{error}") };
        let paths: Vec<_> = running.iter().map(|one| one.path.to_string()).collect();
        assert_eq!(paths, ["/user/late"]);
    });
}

#[test]
fn t13_shutdown_token_is_cancelled_when_the_shutdown_begins() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let (token, log) = (system.shutdown_token(), Log::new());
        let (started, listener_log) = (token.clone(), log.clone());
        let listener = system.scope("listener").unwrap();
        listener
            .launch(async move {
                started.cancelled().await;
                listener_log.note("started");
            })
            .unwrap();
        // Younger than the listener, so it ends first, after its current message.
        let busy = system.spawn("busy", TestActor::props(&log)).unwrap();
        let gate = Gate::new();
        busy.tell(Job::Pass(gate.clone(), 1)).unwrap();
        sim.settle();
        assert!(!token.is_cancelled());
        sim.run(async {
            let mut shutdown = Box::pin(system.shutdown(SECOND));
            assert!(futures::poll!(&mut shutdown).is_pending());
            assert_eq!(token.cause(), Some(Cause::Cancelled));
            sim.sleep(Duration::from_millis(1)).await;
            assert_eq!(log.seen().last().map(String::as_str), Some("started"), "before the others have ended");
            gate.open();
            shutdown.await.unwrap();
        });
        assert!(system.shutdown_token().is_cancelled() && system.root().shutdown_token().is_cancelled(), "also after the end");
    });
}

#[test]
fn t13_every_way_to_end_a_system_cancels_the_token() {
    type End = fn(&Sim, ActorSystem);
    let ends: [(End, Cause); 4] = [
        (|_, system| system.root().begin_shutdown(), Cause::Cancelled),
        (|_, system| system.cancel(Cause::Cancelled), Cause::Cancelled),
        (|_, system| drop(system), Cause::Dropped),
        (|sim, system| sim.run(system.shutdown(SECOND)).unwrap(), Cause::Cancelled),
    ];
    for (end, cause) in ends {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let token = system.shutdown_token();
        token.cancel("by a user");
        assert!(system.spawn("a", TestActor::props(&Log::new())).is_ok(), "cancelling the token does not end the system");
        let system = sim.system("s");
        let token = system.root().shutdown_token();
        end(&sim, system);
        assert_eq!(token.cause(), Some(cause));
    }
}
