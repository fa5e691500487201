//! A12: timers of an actor, in virtual time.

use crate::common::quiet;
use pleach::actor::TimerKey;
use pleach::prelude::*;
use pleach::runtime::Instant;
use pleach::sim::explore;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

const MS: Duration = Duration::from_millis(1);

type Log = Arc<Mutex<Vec<(Duration, &'static str)>>>;

struct TimerActor {
    log: Log,
    on_start: fn(&Context<Self>),
    key: Option<TimerKey>,
}

enum Msg {
    Note(&'static str),
    After(Duration, &'static str),
    Every(Duration, &'static str),
    Idle(Option<Duration>),
    CancelLast(Reply<bool>),
    Busy(Duration),
    Fail,
}

impl Actor for TimerActor {
    type Msg = Msg;
    type Error = &'static str;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), &'static str> {
        (self.on_start)(cx);
        Ok(())
    }

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), &'static str> {
        match msg {
            Msg::Note(what) => self.log.lock().unwrap().push((cx.now() - Instant::ZERO, what)),
            Msg::After(wait, what) => self.key = Some(cx.send_after(wait, Msg::Note(what))),
            Msg::Every(period, what) => self.key = Some(cx.send_every(period, move || Msg::Note(what))),
            Msg::Idle(Some(wait)) => cx.set_receive_timeout(wait, || Msg::Note("idle")),
            Msg::Idle(None) => cx.clear_receive_timeout(),
            Msg::CancelLast(reply) => reply.send(self.key.is_some_and(|key| cx.cancel_timer(key))),
            Msg::Busy(wait) => drop(cx.token().child_for(wait).cancelled().await),
            Msg::Fail => return Err("injected"),
        }
        Ok(())
    }
}

fn timer_props(log: &Log, on_start: fn(&Context<TimerActor>)) -> Props<TimerActor> {
    let log = Arc::clone(log);
    Props::new(move || TimerActor { log: Arc::clone(&log), on_start, key: None })
}

fn seen(log: &Log) -> Vec<(u64, &'static str)> {
    log.lock().unwrap().iter().map(|(at, what)| (at.as_millis() as u64, *what)).collect()
}

#[test]
fn a12_send_after_fires_once_and_in_time_order() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let actor = system.spawn("clock", timer_props(&log, |_| {})).unwrap();
        for (ms, what) in [(30, "third"), (10, "first"), (20, "second")] {
            actor.tell(Msg::After(ms * MS, what)).unwrap();
        }
        sim.advance(100 * MS);
        assert_eq!(seen(&log), [(10, "first"), (20, "second"), (30, "third")]);
        assert!(actor.counts().is_settled() && actor.counts().handled == 6);
    });
}

#[test]
fn a12_send_every_repeats_until_it_is_cancelled() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let actor = system.spawn("clock", timer_props(&log, |_| {})).unwrap();
        actor.tell(Msg::Every(10 * MS, "tick")).unwrap();
        sim.advance(35 * MS);
        assert_eq!(seen(&log), [(10, "tick"), (20, "tick"), (30, "tick")]);
        assert!(sim.run(actor.ask(Msg::CancelLast)).unwrap());
        assert!(!sim.run(actor.ask(Msg::CancelLast)).unwrap(), "already cancelled");
        sim.advance(100 * MS);
        assert_eq!(seen(&log).len(), 3);
    });
}

#[test]
fn a12_busy_actor_gets_one_tick_for_all_it_missed() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let actor = system.spawn("clock", timer_props(&log, |_| {})).unwrap();
        actor.tell(Msg::Every(10 * MS, "tick")).unwrap();
        actor.tell(Msg::Busy(55 * MS)).unwrap();
        sim.advance(60 * MS);
        assert_eq!(seen(&log), [(55, "tick")]);
        sim.advance(10 * MS);
        assert_eq!(seen(&log), [(55, "tick"), (65, "tick")]);
    });
}

#[test]
fn a12_receive_timeout_restarts_with_each_message() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let actor = system.spawn("clock", timer_props(&log, |_| {})).unwrap();
        actor.tell(Msg::Idle(Some(10 * MS))).unwrap();
        sim.advance(7 * MS);
        actor.tell(Msg::Note("message")).unwrap();
        sim.advance(9 * MS);
        assert_eq!(seen(&log), [(7, "message")], "not yet 9 ms after a message");
        sim.advance(2 * MS);
        assert_eq!(seen(&log), [(7, "message"), (17, "idle")]);
        sim.advance(10 * MS);
        assert_eq!(seen(&log).last(), Some(&(27, "idle")), "the timeout message counts as a message");
        actor.tell(Msg::Idle(None)).unwrap();
        sim.advance(100 * MS);
        assert_eq!(seen(&log).len(), 3);
    });
}

#[test]
fn a12_timers_end_with_their_incarnation() {
    quiet();
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let first = |cx: &Context<TimerActor>| {
            if cx.incarnation() == 0 {
                cx.send_after(20 * MS, Msg::Note("from the first"));
                cx.send_every(7 * MS, || Msg::Note("every"));
                cx.set_receive_timeout(9 * MS, || Msg::Note("idle"));
            } else {
                cx.send_after(20 * MS, Msg::Note("from the second"));
            }
        };
        let actor = system.spawn("clock", timer_props(&log, first)).unwrap();
        actor.tell(Msg::Fail).unwrap();
        sim.advance(100 * MS);
        assert_eq!(seen(&log), [(20, "from the second")]);
        assert!(actor.counts().is_settled());
    });
}

#[test]
fn a12_no_timer_fires_after_the_exit() {
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let ends: [fn(&ActorRef<Msg>); 3] = [|actor| actor.stop(), |actor| actor.close(), |actor| actor.cancel(())];
        for (at, end) in ends.into_iter().enumerate() {
            let actor = system.spawn(&format!("clock-{at}"), timer_props(&log, |_| {})).unwrap();
            actor.tell(Msg::After(10 * MS, "too late")).unwrap();
            actor.tell(Msg::Every(10 * MS, "too late")).unwrap();
            sim.advance(5 * MS);
            end(&actor);
            sim.run(actor.exited());
            assert!(actor.counts().is_settled());
        }
        sim.advance(100 * MS);
        assert_eq!(seen(&log), []);
        assert_eq!(sim.tasks_alive(), 0);
    });
}

#[test]
fn a12_zero_timer_fires_at_once_and_an_infinite_one_never() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let actor = system.spawn("clock", timer_props(&log, |_| {})).unwrap();
        actor.tell(Msg::After(Duration::ZERO, "at once")).unwrap();
        actor.tell(Msg::After(Duration::MAX, "never")).unwrap();
        sim.settle();
        assert_eq!(seen(&log), [(0, "at once")]);
        sim.advance(Duration::from_secs(3_600));
        assert_eq!(seen(&log).len(), 1);
    });
}

#[test]
fn s8_panic_in_a_timer_is_a_recorded_failure() {
    quiet();
    struct PanickingTimer;
    impl Actor for PanickingTimer {
        type Msg = ();
        type Error = Infallible;

        async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Infallible> {
            if cx.incarnation() == 0 {
                cx.send_every(MS, || panic!("injected into a timer"));
            }
            Ok(())
        }

        async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), Infallible> {
            Ok(())
        }
    }
    explore(0..50, |sim| {
        let system = sim.system("s");
        let actor = system.spawn("panicking-timer", Props::new(|| PanickingTimer)).unwrap();
        sim.advance(10 * MS);
        actor.tell(()).unwrap();
        sim.settle();
        assert_eq!((system.failures(), actor.counts().handled), (1, 1));
    });
}

/// The key of a timer that has fired is not used again: it cancels no later timer.
#[test]
fn a12_old_timer_key_cancels_no_later_timer() {
    #[derive(Default)]
    struct TwoTimers {
        first: Option<TimerKey>,
    }
    impl Actor for TwoTimers {
        type Msg = u8;
        type Error = Infallible;

        async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Infallible> {
            self.first = Some(cx.send_after(MS, 1));
            Ok(())
        }

        async fn handle(&mut self, message: u8, cx: &mut Context<Self>) -> Result<(), Infallible> {
            if let (1, Some(first)) = (message, self.first) {
                cx.send_after(MS, 2);
                assert!(!cx.cancel_timer(first), "it has fired");
            }
            Ok(())
        }
    }
    explore(0..5, |sim| {
        let system = sim.system("s");
        let actor = system.spawn("two-timers", Props::new(TwoTimers::default)).unwrap();
        sim.advance(5 * MS);
        assert_eq!((system.failures(), actor.counts().handled), (0, 2));
    });
}
