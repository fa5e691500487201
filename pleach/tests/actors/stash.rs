//! A13: the stash and `pipe_to_self`, also across restarts.

use crate::common::quiet;
use pleach::actor::{Refusal, StashFull};
use pleach::prelude::*;
use pleach::sim::explore;
use std::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<u32>>>;

/// Stashes numbers while it is shut, and unstashes them when it opens.
struct Buffer {
    log: Log,
    open: bool,
}

enum Msg {
    Number(u32),
    Ask(u32, Reply<u32>),
    Open,
    Shut,
    StashThenFail(u32),
    StashTwo(u32, u32),
    Stashed(Reply<usize>),
    Pipe(u32, Duration),
    PipeForever(Arc<()>),
    PipePanics,
    Fail,
}

impl Actor for Buffer {
    type Msg = Msg;
    type Error = &'static str;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), &'static str> {
        match msg {
            Msg::Number(n) if self.open => self.log.lock().unwrap().push(n),
            Msg::Ask(n, reply) if self.open => reply.send(n),
            msg @ (Msg::Number(_) | Msg::Ask(..)) => cx.stash(msg).map_err(|StashFull(_)| "full")?,
            Msg::Open => {
                self.open = true;
                cx.unstash_all();
            }
            Msg::Shut => self.open = false,
            Msg::StashThenFail(n) => {
                cx.stash(Msg::Number(n)).map_err(|_| "full")?;
                return Err("injected");
            }
            Msg::StashTwo(a, b) => {
                cx.stash(Msg::Number(a)).map_err(|_| "full")?;
                cx.stash(Msg::Number(b)).map_err(|_| "full")?;
            }
            Msg::Stashed(reply) => reply.send(cx.stashed()),
            Msg::Pipe(n, wait) => drop(cx.pipe_to_self(cx.token().child_for(wait).cancelled(), move |_| Msg::Number(n))),
            Msg::PipeForever(marker) => drop(cx.pipe_to_self(std::future::pending::<()>(), move |()| {
                drop(marker);
                Msg::Open
            })),
            Msg::PipePanics => drop(cx.pipe_to_self(async { panic!("injected into a pipe") }, |()| Msg::Open)),
            Msg::Fail => return Err("injected"),
        }
        Ok(())
    }
}

fn buffer(log: &Log, open: bool) -> Props<Buffer> {
    let log = Arc::clone(log);
    Props::new(move || Buffer { log: Arc::clone(&log), open })
}

fn seen(log: &Log) -> Vec<u32> {
    log.lock().unwrap().clone()
}

#[test]
fn a13_unstashed_messages_come_first_and_in_order() {
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let buffer = system.spawn("buffer", buffer(&log, false)).unwrap();
        (1..=5).for_each(|n| buffer.tell(Msg::Number(n)).unwrap());
        assert_eq!(sim.run(buffer.ask(Msg::Stashed)).unwrap(), 5);
        assert_eq!((buffer.counts().handled, buffer.counts().open()), (1, 5), "a stashed message is not handled yet");
        buffer.tell(Msg::Open).unwrap();
        buffer.tell(Msg::Number(6)).unwrap();
        sim.settle();
        assert_eq!(seen(&log), [1, 2, 3, 4, 5, 6]);
        assert!(buffer.counts().is_settled() && buffer.counts().handled == 8, "{}", buffer.counts());
    });
}

#[test]
fn a13_stash_uses_no_mailbox_capacity_and_is_bounded() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let props = buffer(&log, false).mailbox(Mailbox::bounded(2)).stash_capacity(3);
        let buffer = system.spawn("buffer", props).unwrap();
        for n in 1..=3 {
            buffer.tell(Msg::Number(n)).unwrap();
            sim.settle();
        }
        buffer.tell(Msg::Number(4)).unwrap();
        sim.settle();
        assert_eq!(buffer.counts().failed, 1, "the fourth does not fit, and the handler fails");
        buffer.tell(Msg::Open).unwrap();
        sim.settle();
        // The failure restarted the actor, which stashed the three again and then unstashed them.
        assert_eq!(seen(&log), [1, 2, 3]);
        assert!(buffer.counts().is_settled(), "{}", buffer.counts());
    });
}

#[test]
fn a13_stash_comes_back_in_order_after_a_restart() {
    quiet();
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let buffer = system.spawn("buffer", buffer(&log, true)).unwrap();
        buffer.tell(Msg::Shut).unwrap();
        (1..=3).for_each(|n| buffer.tell(Msg::Number(n)).unwrap());
        buffer.tell(Msg::Fail).unwrap();
        buffer.tell(Msg::Number(4)).unwrap();
        sim.settle();
        assert_eq!(seen(&log), [1, 2, 3, 4]);
        assert!(buffer.counts().is_settled());
        assert_eq!((buffer.counts().handled, buffer.counts().failed), (5, 1));
    });
}

#[test]
fn a2_stashed_message_is_not_counted_as_failed() {
    quiet();
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let buffer = system.spawn("buffer", buffer(&log, true)).unwrap();
        buffer.tell(Msg::StashThenFail(7)).unwrap();
        sim.settle();
        assert_eq!((seen(&log), system.failures()), (vec![7], 1));
        assert_eq!((buffer.counts().handled, buffer.counts().failed), (1, 0));
        buffer.tell(Msg::StashTwo(8, 9)).unwrap();
        buffer.tell(Msg::Open).unwrap();
        sim.settle();
        assert_eq!(seen(&log), [7, 8, 9]);
        assert!(buffer.counts().is_settled() && system.counts().is_settled(), "{}", buffer.counts());
    });
}

#[test]
fn a2_stash_becomes_dead_letters_at_the_end_and_its_asks_end() {
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let ends: [fn(&ActorRef<Msg>); 3] = [|buffer| buffer.stop(), |buffer| buffer.close(), |buffer| buffer.cancel("enough")];
        for (at, end) in ends.into_iter().enumerate() {
            let buffer = system.spawn(&format!("buffer-{at}"), buffer(&log, false)).unwrap();
            buffer.tell(Msg::Number(1)).unwrap();
            let answer = sim.run(async {
                let ask = buffer.ask(|reply| Msg::Ask(2, reply));
                let end = async {
                    sim.sleep(Duration::from_millis(1)).await;
                    end(&buffer);
                };
                futures::join!(ask, end).0
            });
            assert!(matches!(answer, Err(AskError::Closed | AskError::Cancelled(_))), "{answer:?}");
            sim.run(buffer.exited());
            assert!(buffer.counts().is_settled() && buffer.counts().dead_lettered == 2, "{}", buffer.counts());
        }
        assert!(seen(&log).is_empty());
    });
}

#[test]
fn a13_pipe_sends_the_result_of_a_future_to_the_actor() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let buffer = system.spawn("buffer", buffer(&log, true)).unwrap();
        buffer.tell(Msg::Pipe(2, Duration::from_millis(20))).unwrap();
        buffer.tell(Msg::Pipe(1, Duration::from_millis(10))).unwrap();
        sim.advance(Duration::from_millis(15));
        assert_eq!(seen(&log), [1]);
        sim.advance(Duration::from_millis(15));
        assert_eq!(seen(&log), [1, 2]);
    });
}

#[test]
fn a13_pipes_are_dropped_at_a_restart_and_at_every_end() {
    quiet();
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let ends: [fn(&ActorRef<Msg>); 4] = [
            |buffer| buffer.tell(Msg::Fail).unwrap(),
            |buffer| buffer.stop(),
            |buffer| buffer.close(),
            |buffer| buffer.cancel(()),
        ];
        for (at, end) in ends.into_iter().enumerate() {
            let marker = Arc::new(());
            let buffer = system.spawn(&format!("buffer-{at}"), buffer(&log, false)).unwrap();
            buffer.tell(Msg::PipeForever(Arc::clone(&marker))).unwrap();
            sim.settle();
            assert_eq!(Arc::strong_count(&marker), 2);
            end(&buffer);
            sim.settle();
            assert_eq!(Arc::strong_count(&marker), 1, "end {at}");
            assert_eq!(buffer.exit().is_none(), at == 0);
        }
    });
}

#[test]
fn s8_panic_in_a_pipe_is_recorded_and_fails_no_actor() {
    quiet();
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::default());
        let buffer = system.spawn("buffer", buffer(&log, true)).unwrap();
        buffer.tell(Msg::PipePanics).unwrap();
        buffer.tell(Msg::Number(1)).unwrap();
        sim.settle();
        assert_eq!((seen(&log), system.failures(), buffer.counts().failed), (vec![1], 1, 0));
    });
}

#[test]
fn a13_ending_actor_starts_no_pipe() {
    struct PipesAtEnd(Arc<Mutex<Option<Refusal>>>);
    impl Actor for PipesAtEnd {
        type Msg = ();
        type Error = &'static str;

        async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), &'static str> {
            Ok(())
        }

        async fn stopped(&mut self, _exit: &Exit, cx: &mut Context<Self>) -> Result<(), &'static str> {
            *self.0.lock().unwrap() = cx.pipe_to_self(async {}, |()| ()).err();
            Ok(())
        }
    }
    explore(0..20, |sim| {
        let (system, refusal) = (sim.system("s"), Arc::default());
        let seen_refusal = Arc::clone(&refusal);
        let actor = system.spawn("actor", Props::new(move || PipesAtEnd(Arc::clone(&seen_refusal)))).unwrap();
        actor.stop();
        sim.run(actor.exited());
        assert!(matches!(*refusal.lock().unwrap(), Some(Refusal::ShuttingDown { .. })));
    });
}
