//! Messages from other contexts: interrupts, other executors, channels and signals of Embassy.

use crate::common::{advance, executor, on_embassy, settle, system};
use core::convert::Infallible;
use core::fmt;
use core::time::Duration;
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::channel::Channel;
use embassy_sync::signal::Signal;
use pleach_core::{Actor, ActorRef, Context, Mailbox, OneForOne, Props, Reply, SendError, System};
use pleach_embassy::{SignalStream, Watchdog, WatchdogMsg};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

/// Adds numbers.
#[derive(Default)]
struct Sum {
    total: u64,
}

enum Msg {
    Add(u64),
    Total(Reply<u64>),
}

impl Actor for Sum {
    type Msg = Msg;
    type Error = Infallible;

    async fn handle(&mut self, msg: Msg, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        match msg {
            Msg::Add(n) => self.total += n,
            Msg::Total(reply) => reply.send(self.total),
        }
        Ok(())
    }
}

fn sum() -> Props<Sum> {
    Props::new(Sum::default)
}

#[test]
fn d3_messages_arrive_from_channels_and_signals() {
    static READINGS: Channel<CriticalSectionRawMutex, Msg, 4> = Channel::new();
    static LATEST: Signal<CriticalSectionRawMutex, Msg> = Signal::new();
    on_embassy(|spawner| async move {
        let system = system(spawner);
        let from_channel = system.spawn("readings", sum().with_stream(READINGS.receiver())).unwrap();
        let from_signal = system.spawn("latest", sum().with_stream(SignalStream::of(&LATEST))).unwrap();
        for n in 1..=100 {
            READINGS.send(Msg::Add(n)).await;
        }
        LATEST.signal(Msg::Add(1));
        LATEST.signal(Msg::Add(2));
        settle().await;
        LATEST.signal(Msg::Add(3));
        settle().await;
        assert_eq!(from_channel.ask(Msg::Total).await.unwrap(), 5_050);
        assert_eq!(from_signal.ask(Msg::Total).await.unwrap(), 5, "a signal keeps its latest value only");
    });
}

/// Sends from a thread that belongs to no executor, as an interrupt does.
fn send_from_outside(to: &ActorRef<Msg>, messages: u64) -> u64 {
    let sent = (0..messages).filter(|n| {
        let message = Msg::Add(1);
        if n % 2 == 0 { to.tell(message).is_ok() } else { to.try_send(message).is_ok() }
    });
    sent.count() as u64
}

#[test]
fn d3_every_message_from_outside_is_handled_or_returned() {
    on_embassy(|spawner| async move {
        let system = system(spawner);
        let actor = system.spawn("sum", sum().mailbox(Mailbox::bounded(64))).unwrap();
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let to = actor.clone();
                thread::spawn(move || send_from_outside(&to, 10_000))
            })
            .collect();
        let mut sent = 0;
        for sender in senders {
            while !sender.is_finished() {
                settle().await;
            }
            sent += sender.join().unwrap();
        }
        settle().await;
        assert_eq!(actor.ask(Msg::Total).await.unwrap(), sent);
        assert!(system.counts().is_settled());
    });
}

#[test]
fn d3_full_mailbox_returns_the_message_to_an_interrupt() {
    on_embassy(|spawner| async move {
        let system = system(spawner);
        let actor = system.spawn("sum", sum().mailbox(Mailbox::bounded(2))).unwrap();
        // Nothing is polled before this task yields.
        assert!(actor.try_send(Msg::Add(1)).is_ok() && actor.try_send(Msg::Add(2)).is_ok());
        assert!(matches!(actor.try_send(Msg::Add(4)), Err(SendError::Full(Msg::Add(4)))));
        assert_eq!(actor.ask(Msg::Total).await.unwrap(), 3);
    });
}

/// Sends each number on, less one, to its peer. Reports the end.
struct Player {
    peer: Option<ActorRef<Ball>>,
    over: mpsc::Sender<&'static str>,
    name: &'static str,
}

enum Ball {
    Peer(ActorRef<Ball>),
    Hit(u32),
}

impl Actor for Player {
    type Msg = Ball;
    type Error = Infallible;

    async fn handle(&mut self, msg: Ball, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        match (msg, &self.peer) {
            (Ball::Peer(peer), _) => self.peer = Some(peer),
            (Ball::Hit(0), _) => self.over.send(self.name).expect("the test waits"),
            (Ball::Hit(left), Some(peer)) => peer.tell(Ball::Hit(left - 1)).expect("the peer lives"),
            (Ball::Hit(_), None) => unreachable!("the peer is named first"),
        }
        Ok(())
    }
}

#[test]
fn d3_systems_on_two_executors_send_each_other_messages() {
    let (players, started) = mpsc::channel();
    let (over, ended) = mpsc::channel();
    for name in ["thread", "interrupt"] {
        let (players, over) = (players.clone(), over.clone());
        executor(move |_| async move {
            let dispatcher = pleach_embassy::dispatcher();
            let system = System::builder(name, dispatcher.runtime()).build().unwrap();
            let player = system.spawn("player", Props::once(Player { peer: None, over, name })).unwrap();
            players.send((name, player)).unwrap();
            dispatcher.run_until(system.ended()).await.unwrap();
        });
    }
    let ((_, first), (second_name, second)) = (started.recv().unwrap(), started.recv().unwrap());
    first.tell(Ball::Peer(second.clone())).unwrap();
    second.tell(Ball::Peer(first.clone())).unwrap();
    first.tell(Ball::Hit(1_001)).unwrap();
    assert_eq!(ended.recv().unwrap(), second_name, "the second player gets the even numbers");
}

/// Reports to the watchdog with every message, and fails with the message `false`.
struct Worker {
    watchdog: ActorRef<WatchdogMsg>,
}

#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken")
    }
}

impl core::error::Error for Broken {}

impl Actor for Worker {
    type Msg = bool;
    type Error = Broken;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Broken> {
        cx.send_every(Duration::from_millis(100), || true);
        Ok(())
    }

    async fn handle(&mut self, works: bool, _cx: &mut Context<Self>) -> Result<(), Broken> {
        if !works {
            return Err(Broken);
        }
        drop(self.watchdog.tell(WatchdogMsg::Alive(0)));
        Ok(())
    }
}

#[test]
fn d3_give_up_stops_the_feeding_of_the_watchdog() {
    static FED: AtomicU32 = AtomicU32::new(0);
    on_embassy(|_| async move {
        let dispatcher = pleach_embassy::dispatcher();
        let system = System::builder("board", dispatcher.runtime()).build().unwrap();
        let feed = || {
            FED.fetch_add(1, Ordering::Relaxed);
        };
        let watchdog = system.spawn("watchdog", Watchdog::props(&["worker"], Duration::from_secs(1), feed)).unwrap();
        let workers = system.supervisor("workers", OneForOne::new().restart_limit(2, Duration::from_secs(60))).unwrap();
        let worker = workers.spawn("worker", Props::new(move || Worker { watchdog: watchdog.clone() })).unwrap();
        dispatcher
            .run_until(async {
                settle().await;
                for second in 1..=3 {
                    // One failure a second, each followed by a restart.
                    drop(worker.tell(second != 2));
                    for _ in 0..10 {
                        advance(100).await;
                    }
                    assert_eq!(FED.load(Ordering::Relaxed), second, "fed once a period");
                }
                for _ in 0..3 {
                    drop(worker.tell(false));
                    settle().await;
                }
                assert!(worker.exit().is_some(), "its supervisor gave up");
                advance(1_000).await;
                let last = FED.load(Ordering::Relaxed);
                assert!(last <= 4, "the last report counts for one period");
                for _ in 0..50 {
                    advance(100).await;
                }
                assert_eq!(FED.load(Ordering::Relaxed), last, "not fed after the give-up");
            })
            .await;
    });
}
