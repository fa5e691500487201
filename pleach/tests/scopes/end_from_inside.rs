//! T11: ends that a member requests from inside.

use pleach::BoxError;
use pleach::actor::AnyRef;
use pleach::prelude::*;
use pleach::scope::WaitError;
use pleach::sim::explore;
use pleach::system::ShutdownError;
use std::future::pending;
use std::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<String>>>;

/// An actor that ends members from its own handler and logs its messages and its exit.
struct EndsFromInside {
    log: Log,
    system: Arc<Mutex<Option<ActorSystem>>>,
    parent: Option<AnyRef>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    StopItself,
    CancelItself,
    StopParent,
    CloseParent,
    CancelParent,
    BeginShutdown,
    AwaitShutdown,
    AwaitEnded,
    Kill,
    DropSystem,
}

const ENDS: [End; 10] = [
    End::StopItself,
    End::CancelItself,
    End::StopParent,
    End::CloseParent,
    End::CancelParent,
    End::BeginShutdown,
    End::AwaitShutdown,
    End::AwaitEnded,
    End::Kill,
    End::DropSystem,
];

impl EndsFromInside {
    #[allow(clippy::await_holding_lock, reason = "the await returns at once, which this test checks")]
    async fn end(&self, end: End, cx: &Context<Self>) {
        let parent = self.parent.as_ref().unwrap();
        match end {
            End::StopItself => cx.stop(),
            End::CancelItself => cx.me().cancel("itself"),
            End::StopParent => parent.stop(),
            End::CloseParent => parent.close(),
            End::CancelParent => parent.cancel("from below"),
            End::Kill => self.root().cancel(Cause::Cancelled),
            End::BeginShutdown => self.root().begin_shutdown(),
            End::DropSystem => drop(self.system.lock().unwrap().take()),
            End::AwaitShutdown => {
                let system = self.system.lock().unwrap().take().unwrap();
                let answer = system.shutdown(Duration::from_secs(1)).await;
                let Err(ShutdownError::FromInside(path)) = answer else { panic!("{answer:?}") };
                assert_eq!(path, cx.path());
                *self.system.lock().unwrap() = Some(system);
            }
            End::AwaitEnded => {
                self.root().begin_shutdown();
                let ended = self.system.lock().unwrap().as_ref().unwrap().ended();
                assert!(matches!(ended.await, Err(WaitError::FromInside { .. })));
            }
        }
    }

    fn root(&self) -> RootContext {
        self.system.lock().unwrap().as_ref().unwrap().root()
    }
}

impl Actor for EndsFromInside {
    type Msg = Option<End>;
    type Error = BoxError;

    async fn handle(&mut self, end: Option<End>, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if let Some(end) = end {
            self.end(end, cx).await;
        }
        self.log.lock().unwrap().push(format!("handled {end:?}"));
        Ok(())
    }

    async fn stopped(&mut self, exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.lock().unwrap().push(format!("stopped {exit}"));
        Ok(())
    }
}

#[test]
fn t11_end_requested_from_inside_never_deadlocks() {
    for end in ENDS {
        explore(0..30, |sim| {
            let system = Arc::new(Mutex::new(Some(sim.system("t11"))));
            let supervisor = system.lock().unwrap().as_ref().unwrap().supervisor("supervisor", OneForOne::new()).unwrap();
            let log = Log::default();
            let (parts, parent) = ((Arc::clone(&log), Arc::clone(&system)), supervisor.any());
            let make = move || EndsFromInside { log: parts.0.clone(), system: parts.1.clone(), parent: Some(parent.clone()) };
            supervisor.spawn("sibling", Props::new(make.clone())).unwrap();
            let actor = supervisor.spawn("actor", Props::new(make)).unwrap();
            actor.tell(Some(end)).unwrap();
            actor.tell(None).unwrap();
            // The simulator panics at a deadlock.
            let exit = sim.run(actor.exited());
            let expected = match end {
                End::StopItself | End::StopParent => Exit::Stopped,
                End::CloseParent | End::BeginShutdown | End::AwaitShutdown | End::AwaitEnded => Exit::Closed,
                End::CancelItself => Exit::Cancelled("itself".into()),
                End::CancelParent => Exit::Cancelled("from below".into()),
                End::Kill => Exit::Cancelled(Cause::Cancelled),
                End::DropSystem => Exit::Cancelled(Cause::Dropped),
            };
            assert_eq!(exit, expected, "{end:?}");
            if !matches!(end, End::StopItself | End::CancelItself) {
                sim.run(supervisor.any().exited());
            }
            let handled = log.lock().unwrap().iter().filter(|line| line.starts_with("handled")).count();
            assert_eq!(handled, if exit == Exit::Closed { 2 } else { 1 }, "{end:?}: {log:?}");
            assert!(log.lock().unwrap().contains(&format!("stopped {exit}")), "{log:?}");
            assert!(actor.counts().is_settled());
            let system = system.lock().unwrap().take();
            if let Some(system) = system {
                sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
                assert!(system.root().running().is_empty() && system.counts().is_settled());
                assert_eq!(system.failures(), 0);
            }
            sim.settle();
            assert_eq!(sim.tasks_alive(), 0, "{end:?} leaves a task behind");
        });
    }
}

#[test]
fn t11_handler_that_began_the_shutdown_is_cancelled_at_the_deadline() {
    explore(0..50, |sim| {
        let system = Arc::new(sim.system("t11"));
        let scope = system.scope("s").unwrap();
        let inside = Arc::clone(&system);
        let task = scope.launch(async move {
            let answer = inside.shutdown(Duration::from_secs(3)).await;
            assert!(matches!(answer, Err(ShutdownError::FromInside(_))), "{answer:?}");
            pending::<()>().await;
        });
        assert_eq!(sim.run(task.unwrap().exited()), Exit::Cancelled(Cause::DeadlineExceeded));
        assert_eq!(sim.now().since_start(), Duration::from_secs(3));
        assert_eq!((system.failures(), system.root().running().len()), (0, 0));
    });
}
