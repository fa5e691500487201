//! A supervisor and the ends of its children.

use pleach::prelude::*;
use pleach::sim::explore;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

type End = fn(&ActorRef<()>);
type Log = Arc<Mutex<Vec<String>>>;

/// Notes when it starts and how it ends.
struct Diarist {
    name: &'static str,
    log: Log,
}

impl Actor for Diarist {
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

fn diarist(name: &'static str, log: &Log) -> Props<Diarist> {
    let log = Arc::clone(log);
    Props::new(move || Diarist { name, log: Arc::clone(&log) })
}

#[test]
fn s2_only_a_failure_starts_a_child_again() {
    let ends: [(End, &str); 3] =
        [(ActorRef::stop, "stopped"), (ActorRef::close, "closed"), (|child| child.cancel("enough"), "cancelled: enough")];
    for (end, exit) in ends {
        explore(0..50, |sim| {
            let (system, log) = (sim.system("house"), Log::default());
            let crew = system.supervisor("crew", OneForOne::new()).unwrap();
            let child = crew.spawn("child", diarist("child", &log)).unwrap();
            let sibling = crew.spawn("sibling", diarist("sibling", &log)).unwrap();
            sim.settle();
            end(&child);
            assert_eq!(sim.run(child.exited()).to_string(), exit);
            sim.advance(Duration::from_secs(3_600));
            let told: Vec<String> = log.lock().unwrap().iter().filter(|line| line.starts_with("child")).cloned().collect();
            assert_eq!(told, ["child started".to_string(), format!("child {exit}")]);
            assert_eq!((system.failures(), sibling.exit()), (0, None));
        });
    }
}

#[test]
fn s2_a_supervisor_that_ends_stops_its_children_in_reverse_start_order() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("house"), Log::default());
        let crew = system.supervisor("crew", OneForOne::new()).unwrap();
        for name in ["first", "second", "third"] {
            crew.spawn(name, diarist(name, &log)).unwrap();
        }
        sim.settle();
        log.lock().unwrap().clear();
        crew.any().stop();
        assert_eq!(sim.run(crew.any().exited()), Exit::Stopped);
        assert_eq!(*log.lock().unwrap(), ["third stopped", "second stopped", "first stopped"]);
        assert!(crew.spawn("late", diarist("late", &log)).is_err());
    });
}
