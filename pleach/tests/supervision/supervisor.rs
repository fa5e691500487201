//! S2: a supervisor and the exits of its children.

use pleach::prelude::*;
use pleach::sim::explore;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

type End = fn(&ActorRef<()>);
type Log = Arc<Mutex<Vec<String>>>;

/// Logs its start and its exit.
struct LoggingActor {
    name: &'static str,
    log: Log,
}

impl Actor for LoggingActor {
    type Msg = ();
    type Error = Infallible;

    async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        self.log.lock().unwrap().push(format!("{} started", self.name));
        Ok(())
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), Infallible> {
        Ok(())
    }

    async fn stopped(&mut self, exit: &Exit, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        self.log.lock().unwrap().push(format!("{} {exit}", self.name));
        Ok(())
    }
}

fn logging_actor(name: &'static str, log: &Log) -> Props<LoggingActor> {
    let log = Arc::clone(log);
    Props::new(move || LoggingActor { name, log: Arc::clone(&log) })
}

#[test]
fn s2_only_a_failed_child_is_restarted() {
    let ends: [(End, &str); 3] =
        [(ActorRef::stop, "stopped"), (ActorRef::close, "closed"), (|child| child.cancel("enough"), "cancelled: enough")];
    for (end, exit) in ends {
        explore(0..50, |sim| {
            let (system, log) = (sim.system("s"), Log::default());
            let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
            let child = supervisor.spawn("child", logging_actor("child", &log)).unwrap();
            let sibling = supervisor.spawn("sibling", logging_actor("sibling", &log)).unwrap();
            sim.settle();
            end(&child);
            assert_eq!(sim.run(child.exited()).to_string(), exit);
            sim.advance(Duration::from_secs(3_600));
            let seen: Vec<String> = log.lock().unwrap().iter().filter(|line| line.starts_with("child")).cloned().collect();
            assert_eq!(seen, ["child started".to_string(), format!("child {exit}")]);
            assert_eq!((system.failures(), sibling.exit()), (0, None));
        });
    }
}

#[test]
fn s2_stopped_supervisor_stops_children_in_reverse_start_order() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        for name in ["first", "second", "third"] {
            supervisor.spawn(name, logging_actor(name, &log)).unwrap();
        }
        sim.settle();
        log.lock().unwrap().clear();
        supervisor.any().stop();
        assert_eq!(sim.run(supervisor.any().exited()), Exit::Stopped);
        assert_eq!(*log.lock().unwrap(), ["third stopped", "second stopped", "first stopped"]);
        assert!(supervisor.spawn("late", logging_actor("late", &log)).is_err());
    });
}
