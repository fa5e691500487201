//! T13: who hears that a shutdown has begun, and whom it names at its end.

use crate::common::{Doer, Gate, Job, Log};
use pleach::ShutdownError;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn w9e_a_shutdown_names_the_culprit_and_no_guardian() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let late = system.spawn("late", Doer::props(&Log::new())).unwrap();
        late.tell(Job::Pass(Gate::new(), 1)).unwrap();
        sim.settle();
        let error = sim.run(system.shutdown(SECOND)).unwrap_err();
        let ShutdownError::Late(running) = &error else { panic!("{error}") };
        let paths: Vec<_> = running.iter().map(|one| one.path.to_string()).collect();
        assert_eq!(paths, ["/user/late"]);
    });
}

#[test]
fn w9f_the_shutdown_token_is_cancelled_when_the_shutdown_begins() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let (token, log) = (system.shutdown_token(), Log::new());
        let (begun, heard) = (token.clone(), log.clone());
        let listener = system.scope("listener").unwrap();
        listener
            .launch(async move {
                begun.cancelled().await;
                heard.note("begun");
            })
            .unwrap();
        // Younger than the listener: it ends first, after what it has.
        let busy = system.spawn("busy", Doer::props(&log)).unwrap();
        let gate = Gate::new();
        busy.tell(Job::Pass(gate.clone(), 1)).unwrap();
        sim.settle();
        assert!(!token.is_cancelled());
        sim.run(async {
            let mut shutdown = Box::pin(system.shutdown(SECOND));
            assert!(futures::poll!(&mut shutdown).is_pending());
            assert_eq!(token.cause(), Some(Cause::Cancelled));
            sim.sleep(Duration::from_millis(1)).await;
            assert_eq!(log.seen().last().map(String::as_str), Some("begun"), "before the others have ended");
            gate.open();
            shutdown.await.unwrap();
        });
        assert!(system.shutdown_token().is_cancelled() && system.root().shutdown_token().is_cancelled(), "also late");
    });
}

#[test]
fn w9f_every_way_to_end_a_system_cancels_the_token() {
    type End = fn(&Sim, ActorSystem);
    let ends: [(End, Cause); 4] = [
        (|_, system| system.root().begin_shutdown(), Cause::Cancelled),
        (|_, system| system.kill(), Cause::Cancelled),
        (|_, system| drop(system), Cause::Dropped),
        (|sim, system| sim.run(system.shutdown(SECOND)).unwrap(), Cause::Cancelled),
    ];
    for (end, cause) in ends {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let token = system.shutdown_token();
        token.cancel("by a user");
        assert!(system.spawn("a", Doer::props(&Log::new())).is_ok(), "cancelling it ends nothing");
        let system = sim.system("s");
        let token = system.root().shutdown_token();
        end(&sim, system);
        assert_eq!(token.cause(), Some(cause));
    }
}
