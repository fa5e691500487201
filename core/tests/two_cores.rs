//! D6: two cores and interrupts, as threads with an implementation of `critical-section`.
//!
//! Without `std` the locks are critical sections, so this is the code of a chip with two cores. The
//! flag leaves out a development dependency that turns `std` on: `RUSTFLAGS="--cfg pleach_portable"
//! cargo test -p pleach-core --no-default-features --test two_cores`.

use pleach_core::{
    Actor, ActorRef, AskError, Clock, Context, Dispatcher, Instant, Mailbox, Props, Reply, SendError, System, identify_cores,
};
use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread;

const ROUNDS: u32 = 2_000;

/// Held by one test at a time: a core of one test must not have the number of a core of another.
static ALL_CORES: Mutex<()> = Mutex::new(());

thread_local! {
    /// The number of the core that this thread represents.
    static CORE: Cell<usize> = const { Cell::new(0) };
}

/// Runs `f` as core `number`.
fn on_core<R>(number: usize, f: impl FnOnce() -> R) -> R {
    static IDENTIFIED: Once = Once::new();
    IDENTIFIED.call_once(|| identify_cores(|| CORE.get()));
    CORE.set(number);
    f()
}

/// A clock that stands still: these tests have no timers.
struct Still;

impl Clock for Still {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
}

/// Wakes a core that sleeps, as an event does.
struct Core(thread::Thread);

impl Wake for Core {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives a dispatcher on this thread until `future` is done. The thread sleeps while nothing is
/// ready, so a lost wake-up would hang the test.
fn drive<T>(dispatcher: &Dispatcher, future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Core(thread::current())));
    let mut running = pin!(dispatcher.run_until(future));
    loop {
        match running.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Adds numbers, and asks its peer on the other core.
#[derive(Default)]
struct Node {
    sum: u32,
    peer: Option<ActorRef<Msg>>,
}

enum Msg {
    Add(u32),
    Peer(ActorRef<Msg>),
    Sum(Reply<u32>),
    /// Asks the peer for its sum, in the handler.
    SumOfPeer(Reply<Result<u32, AskError>>),
}

impl Actor for Node {
    type Msg = Msg;
    type Error = Infallible;

    async fn handle(&mut self, msg: Msg, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        match (msg, &self.peer) {
            (Msg::Add(n), _) => self.sum += n,
            (Msg::Peer(peer), _) => self.peer = Some(peer),
            (Msg::Sum(reply), _) => reply.send(self.sum),
            (Msg::SumOfPeer(reply), Some(peer)) => reply.send(peer.ask(Msg::Sum).await),
            (Msg::SumOfPeer(_), None) => {}
        }
        Ok(())
    }
}

/// Two cores, each with a system of its own.
struct Cores {
    _alone: MutexGuard<'static, ()>,
    dispatchers: [Dispatcher; 2],
    systems: [System; 2],
    nodes: [ActorRef<Msg>; 2],
}

fn two_cores(mailbox: usize) -> Cores {
    let alone = ALL_CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let dispatchers = [Dispatcher::new(Still), Dispatcher::new(Still)];
    let systems = dispatchers.each_ref().map(|core| System::builder("core", core.runtime()).build().unwrap());
    let node = |system: &System| system.spawn("node", Props::new(Node::default).mailbox(Mailbox::bounded(mailbox))).unwrap();
    let nodes = systems.each_ref().map(node);
    nodes[0].tell(Msg::Peer(nodes[1].clone())).unwrap();
    nodes[1].tell(Msg::Peer(nodes[0].clone())).unwrap();
    Cores { _alone: alone, dispatchers, systems, nodes }
}

impl Cores {
    /// Runs `main` on the first core, and only the actor on the second, until both actors are
    /// closed.
    fn run<T>(&self, main: impl Future<Output = T>) -> T {
        let [first, second] = &self.dispatchers;
        thread::scope(|threads| {
            threads.spawn(|| on_core(2, || drive(second, self.nodes[1].exited())));
            on_core(1, || {
                drive(first, async {
                    let output = main.await;
                    for node in &self.nodes {
                        node.close();
                        node.exited().await;
                    }
                    output
                })
            })
        })
    }

    fn handled(&self) -> u64 {
        self.nodes.iter().map(|node| node.counts().handled).sum()
    }
}

/// Waits for both futures, which run at the same time.
async fn both<A: Future + Unpin, B: Future + Unpin>(mut a: A, mut b: B) -> (A::Output, B::Output) {
    let (mut of_a, mut of_b) = (None, None);
    poll_fn(move |cx| {
        of_a = of_a.take().or_else(|| ready(Pin::new(&mut a).poll(cx)));
        of_b = of_b.take().or_else(|| ready(Pin::new(&mut b).poll(cx)));
        match (of_a.take(), of_b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            waiting => {
                (of_a, of_b) = waiting;
                Poll::Pending
            }
        }
    })
    .await
}

fn ready<T>(polled: Poll<T>) -> Option<T> {
    if let Poll::Ready(output) = polled { Some(output) } else { None }
}

#[test]
fn d6_cores_ask_each_other_and_a_cycle_is_found() {
    let cores = two_cores(64);
    let [a, b] = &cores.nodes;
    let (answers, cycles) = cores.run(async {
        let (mut answers, mut cycles) = (0, 0);
        for _ in 0..ROUNDS {
            a.send(Msg::Add(1)).await.unwrap();
            b.send(Msg::Add(1)).await.unwrap();
            // Each asks the other in its handler. If both do so at once, one ask finds the cycle.
            let (of_a, of_b) = both(a.ask(Msg::SumOfPeer), b.ask(Msg::SumOfPeer)).await;
            for answer in [of_a.unwrap(), of_b.unwrap()] {
                match answer {
                    Ok(sum) => {
                        assert!(sum <= ROUNDS);
                        answers += 1;
                    }
                    Err(AskError::Cycle(paths)) => {
                        assert_eq!(paths.len(), 2);
                        cycles += 1;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
        (answers, cycles)
    });
    assert_eq!(answers + cycles, 2 * ROUNDS);
    assert!(cores.systems.iter().all(|system| system.counts().is_settled()));
    // The peers, the additions, the questions, and each question that a peer was asked. One that
    // closed a cycle was not sent.
    assert_eq!(cores.handled(), u64::from(2 + 2 * ROUNDS + 2 * ROUNDS + answers));
}

#[test]
fn d6_interrupts_of_both_cores_lose_no_message() {
    let cores = two_cores(32);
    let returned = AtomicU32::new(0);
    let interrupt = |number: usize, to: &ActorRef<Msg>| {
        on_core(number, || {
            for n in 0..10 * ROUNDS {
                match if n % 2 == 0 { to.tell(Msg::Add(1)) } else { to.try_send(Msg::Add(1)) } {
                    Ok(()) => {}
                    Err(SendError::Full(_)) => drop(returned.fetch_add(1, Ordering::Relaxed)),
                    Err(other) => panic!("{other}"),
                }
            }
        });
    };
    let sums = thread::scope(|threads| {
        let [a, b] = &cores.nodes;
        // Each sends to the actor of its own core, and to that of the other one.
        let interrupts = [(3, a), (4, b), (5, b), (6, a)].map(|(number, to)| threads.spawn(move || interrupt(number, to)));
        cores.run(async {
            loop {
                let are_over = interrupts.iter().all(thread::ScopedJoinHandle::is_finished);
                let sums = (a.ask(Msg::Sum).await.unwrap(), b.ask(Msg::Sum).await.unwrap());
                if are_over {
                    return sums;
                }
            }
        })
    });
    assert_eq!(sums.0 + sums.1 + returned.load(Ordering::Relaxed), 40 * ROUNDS);
    assert!(cores.systems.iter().all(|system| system.counts().is_settled()));
}
