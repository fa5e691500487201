//! S8: every failure, injected at any point of the life of an actor, gives one record.

use crate::common::{INJECTED, TestActor, failures, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::explore;
use pleach::supervise::Reason;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a failure is injected.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Point {
    Factory,
    Started,
    Handle,
    Signal,
    Restarting,
    Stopped,
    DropOfState,
    DropOfMessage,
    OnDone,
    Feed,
}

const POINTS: [Point; 10] = [
    Point::Factory,
    Point::Started,
    Point::Handle,
    Point::Signal,
    Point::Restarting,
    Point::Stopped,
    Point::DropOfState,
    Point::DropOfMessage,
    Point::OnDone,
    Point::Feed,
];

/// The points where a failure is still to be injected, each once, and the number of injected
/// failures.
#[derive(Clone)]
struct Injector {
    planned: Arc<std::sync::Mutex<Vec<(Point, bool)>>>,
    injected: Arc<AtomicU32>,
    text: &'static str,
}

impl Injector {
    /// Panics or fails if a failure is planned at this point.
    fn inject(&self, point: Point) -> Result<(), BoxError> {
        let panics = {
            let mut planned = self.planned.lock().unwrap();
            match planned.iter().position(|(planned, _)| *planned == point) {
                Some(at) => planned.swap_remove(at).1,
                None => return Ok(()),
            }
        };
        self.injected.fetch_add(1, Ordering::Relaxed);
        if panics {
            panic!("{} into {point:?}", self.text);
        }
        Err(format!("{} into {point:?}", self.text).into())
    }
}

struct FailingActor(Injector);

/// A message that may panic when it is dropped unhandled.
struct FailingMessage(Option<Injector>);

impl Drop for FailingMessage {
    fn drop(&mut self) {
        if let Some(injector) = &self.0 {
            injector.inject(Point::DropOfMessage).ok();
        }
    }
}

impl Drop for FailingActor {
    fn drop(&mut self) {
        self.0.inject(Point::DropOfState).ok();
    }
}

impl Actor for FailingActor {
    type Msg = FailingMessage;
    type Error = BoxError;

    async fn handle(&mut self, mut msg: FailingMessage, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        msg.0 = None;
        self.0.inject(Point::Handle)
    }

    async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.inject(Point::Started)
    }

    async fn restarting(&mut self, _failure: &FailureInfo, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.inject(Point::Restarting)
    }

    async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.inject(Point::Stopped)
    }

    async fn signal(&mut self, _signal: Signal, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.inject(Point::Signal)
    }
}

#[test]
fn s8_every_injected_failure_gives_one_record() {
    quiet();
    explore(0..1_024, |sim| {
        // Every set of points. Each point panics or returns an error.
        let only_panics =
            |point| matches!(point, Point::Factory | Point::DropOfState | Point::DropOfMessage | Point::OnDone | Point::Feed);
        let chosen: Vec<_> = (0..POINTS.len())
            .filter(|at| sim.seed() & (1 << at) != 0)
            .map(|at| (POINTS[at], only_panics(POINTS[at]) || (sim.seed() as usize + at).is_multiple_of(2)))
            .collect();
        let (system, expected) = (sim.system("s"), chosen.len());
        let records = failures(&system);
        // The location of a hidden panic may not be recorded.
        let is_printed = chosen.len() == 1;
        let text = if is_printed { "thrown" } else { INJECTED };
        let injector = Injector { planned: Arc::new(std::sync::Mutex::new(chosen.clone())), injected: Arc::default(), text };
        let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(100, Duration::from_secs(1))).unwrap();
        let (created, fed, done) = (injector.clone(), injector.clone(), injector.clone());
        let props = Props::new(move || {
            created.inject(Point::Factory).ok();
            FailingActor(created.clone())
        });
        let feed = futures::stream::poll_fn(move |_| {
            fed.inject(Point::Feed).ok();
            std::task::Poll::Pending
        });
        let actor = supervisor.spawn("failing", props.with_stream(feed)).unwrap();
        actor.on_done(move |_| drop(done.inject(Point::OnDone)));
        actor.tell(FailingMessage(None)).unwrap();
        let dead = TestActor::spawn(&system, "dead");
        dead.stop();
        sim.settle();
        // The actor gets a signal, at which it may fail too.
        dead.try_send_system(SystemMessage::Watch(actor.any())).unwrap();
        sim.settle();
        // Fails once more if no failure caused a restart; then leaves a message unhandled.
        if injector.planned.lock().unwrap().iter().any(|(point, _)| *point == Point::Restarting) {
            injector.planned.lock().unwrap().push((Point::Handle, false));
            actor.tell(FailingMessage(None)).unwrap();
            sim.settle();
        }
        actor.try_send_system(SystemMessage::Suspend).unwrap();
        sim.settle();
        actor.tell(FailingMessage(Some(injector.clone()))).unwrap();
        actor.stop();
        let exit = sim.run(actor.exited());
        assert_eq!(exit, Exit::Stopped);
        let injected = injector.injected.load(Ordering::Relaxed) as usize;
        assert!(injected >= expected, "{:?} never failed", injector.planned.lock().unwrap());
        assert_eq!((system.failures(), records.len()), (injected, injected), "{chosen:?}");
        for record in records.take() {
            let reason = match record.reason() {
                Reason::Panic { message, location } => {
                    let place = location.as_deref().unwrap_or_default();
                    assert!(!is_printed || place.contains("injected_failures.rs"), "{location:?}");
                    message.clone()
                }
                reason => reason.to_string(),
            };
            assert!(reason.starts_with(&format!("{text} into")), "{reason}");
            assert_eq!(record.path().to_string(), "/user/supervisor/failing");
        }
        assert!(system.counts().is_settled());
    });
}
