//! D4: the simulator.

use crate::common::yield_once;
use pleach::BoxError;
use pleach::prelude::*;
use pleach::runtime::{Instant, Runtime};
use pleach::sim::{SEED_VARIABLE, SEEDS_VARIABLE, Sim, explore, first_failing};
use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// Set in a child process of a test.
const CHILD: &str = "PLEACH_TEST_CHILD";

/// Runs one test of this binary in a child process.
fn run_in_child(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let test = format!("sim::{test}");
    child
        .args(["--exact", &test, "--nocapture", "--test-threads=1"])
        .env_remove(SEED_VARIABLE)
        .env_remove(SEEDS_VARIABLE)
        .env(CHILD, "1");
    child.envs(variables.iter().copied()).output().unwrap()
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Sleeps for a random time before it handles a message, and sometimes fails.
struct RandomActor {
    runtime: Arc<dyn Runtime>,
    next: Option<ActorRef<u32>>,
}

impl Actor for RandomActor {
    type Msg = u32;
    type Error = BoxError;

    async fn handle(&mut self, n: u32, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        let wait = Duration::from_micros(self.runtime.random() % 1_000);
        self.runtime.sleep_until(self.runtime.now() + wait).await;
        if self.runtime.random().is_multiple_of(8) {
            return Err("random failure".into());
        }
        if let Some(next) = &self.next {
            next.send(n + 1).await?;
        }
        Ok(())
    }
}

/// A program with a chain of actors that fail randomly, tasks, timers and a shutdown.
fn busy_program(sim: &Sim) {
    let system = sim.system("busy");
    let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(1_000, Duration::from_secs(1))).unwrap();
    let mut next: Option<ActorRef<u32>> = None;
    for n in 0..5 {
        let (runtime, to) = (sim.runtime(), next.take());
        let make = move || RandomActor { runtime: Arc::clone(&runtime), next: to.clone() };
        next = Some(supervisor.spawn(&n.to_string(), Props::new(make).mailbox(Mailbox::bounded(2))).unwrap());
    }
    let (first, scope) = (next.unwrap(), system.scope("tasks").unwrap());
    for _ in 0..4 {
        let first = first.clone();
        let sends = async move {
            for n in 0..5 {
                first.send(n).await?;
            }
            Ok::<(), BoxError>(())
        };
        scope.launch(sends).unwrap();
    }
    sim.run(async {
        scope.wait_all().await.unwrap();
        drop(scope);
        system.shutdown(Duration::from_secs(60)).await.unwrap();
    });
    let counts = system.counts();
    assert!(counts.is_settled(), "{counts}");
    sim.mix_into_trace(counts.handled);
    sim.mix_into_trace(system.failures() as u64);
}

/// The trace of one seed, and its hash.
fn trace(seed: u64) -> (String, u64) {
    let sim = Sim::recording(seed);
    busy_program(&sim);
    (sim.trace(), sim.trace_hash())
}

#[test]
fn d4_one_seed_gives_one_trace() {
    let mut traces = BTreeSet::new();
    for seed in 0..50 {
        let (text, hash) = trace(seed);
        assert!(text.lines().count() > 50, "the trace is not empty");
        assert_eq!((&text, hash), (&trace(seed).0, trace(seed).1), "seed {seed}");
        let plain = Sim::new(seed);
        busy_program(&plain);
        assert_eq!((plain.trace_hash(), plain.trace()), (hash, String::new()), "recording does not change the schedule");
        traces.insert(text);
    }
    assert_eq!(traces.len(), 50, "different seeds give different schedules");
}

#[test]
fn d4_seed_gives_the_same_trace_in_another_process() {
    let here: Vec<String> = (0..5)
        .map(|seed| {
            let (text, hash) = trace(seed);
            let digest = text.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
            format!("trace of {seed}: {hash:016x} {digest:016x}")
        })
        .collect();
    if is_child() {
        here.iter().for_each(|line| println!("{line}"));
        return;
    }
    for _ in 0..2 {
        let output = run_in_child("d4_seed_gives_the_same_trace_in_another_process", &[]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let there: Vec<_> = text.lines().filter_map(|line| Some(&line[line.find("trace of ")?..])).collect();
        assert_eq!(there, here, "{text}");
    }
}

#[test]
fn d4_seed_chooses_which_task_runs_next() {
    let orders = Mutex::new(BTreeSet::new());
    explore(0..200, |sim| {
        let scope = sim.scope();
        let order = Arc::new(Mutex::new(Vec::new()));
        for n in 0..4 {
            let order = Arc::clone(&order);
            scope.launch(async move { order.lock().unwrap().push(n) }).unwrap();
        }
        sim.run(scope.wait_all()).unwrap();
        orders.lock().unwrap().insert(order.lock().unwrap().clone());
    });
    assert_eq!(orders.into_inner().unwrap().len(), 24, "200 seeds try every order of four tasks");
}

#[test]
fn d4_time_is_virtual_and_exact() {
    explore(0..50, |sim| {
        assert_eq!(sim.now(), Instant::ZERO);
        let began = std::time::Instant::now();
        sim.run(async {
            sim.sleep(Duration::from_secs(365 * 24 * 3_600)).await;
            assert_eq!(sim.now().since_start(), Duration::from_secs(365 * 24 * 3_600));
            sim.sleep(Duration::from_nanos(1)).await;
        });
        assert_eq!(sim.now().since_start(), Duration::new(365 * 24 * 3_600, 1));
        let scope = sim.scope();
        let woken = Arc::new(Mutex::new(Vec::new()));
        for ms in [30, 10, 20] {
            let (sleep, woken) = (sim.runtime().sleep_until(sim.now() + Duration::from_millis(ms)), Arc::clone(&woken));
            let sleeps = async move {
                sleep.await;
                woken.lock().unwrap().push(ms);
            };
            scope.launch(sleeps).unwrap();
        }
        sim.settle();
        assert!(woken.lock().unwrap().is_empty(), "time passes only with `advance`");
        sim.advance(Duration::from_millis(19));
        assert_eq!(*woken.lock().unwrap(), [10]);
        sim.advance(Duration::from_millis(11));
        assert_eq!(*woken.lock().unwrap(), [10, 20, 30]);
        assert!(began.elapsed() < Duration::from_secs(60));
    });
}

/// Two tasks read a total and write it plus one. With `across_an_await` other tasks may run in
/// between.
fn lost_update(sim: &Sim, across_an_await: bool) {
    let (total, scope) = (Arc::new(AtomicU64::new(0)), sim.scope());
    for _ in 0..2 {
        let total = Arc::clone(&total);
        let adds = async move {
            let read = total.load(Ordering::Relaxed);
            if across_an_await {
                yield_once().await;
            }
            total.store(read + 1, Ordering::Relaxed);
        };
        scope.launch(adds).unwrap();
    }
    sim.run(scope.wait_all()).unwrap();
    assert_eq!(total.load(Ordering::Relaxed), 2, "an update was lost");
}

/// The same with an actor: two tasks ask an account for its balance and then set it.
fn lost_deposit(sim: &Sim) {
    enum Account {
        Read(Reply<u64>),
        Write(u64),
    }
    let system = sim.system("bank");
    let balance = Arc::new(AtomicU64::new(0));
    let stored = Arc::clone(&balance);
    let handle = move |(): &mut (), message: Account| {
        match message {
            Account::Read(reply) => reply.send(stored.load(Ordering::Relaxed)),
            Account::Write(to) => stored.store(to, Ordering::Relaxed),
        }
        Ok::<(), BoxError>(())
    };
    let account = system.spawn("account", Props::from_fn(|| (), handle)).unwrap();
    let scope = system.scope("depositors").unwrap();
    for _ in 0..2 {
        let account = account.clone();
        let deposits = async move {
            let read = account.ask(Account::Read).await?;
            account.send(Account::Write(read + 1)).await?;
            Ok::<(), BoxError>(())
        };
        scope.launch(deposits).unwrap();
    }
    sim.run(async {
        scope.wait_all().await.unwrap();
        drop(scope);
        system.shutdown(Duration::from_secs(1)).await.unwrap();
    });
    assert_eq!(balance.load(Ordering::Relaxed), 2, "a deposit was lost");
}

#[test]
fn d4_lost_update_is_found_within_1_000_seeds() {
    let races: [fn(&Sim); 2] = [|sim| lost_update(sim, true), lost_deposit];
    for race in races {
        let seed = first_failing(0..1_000, race).expect("the race must be found");
        assert_eq!(first_failing(seed..seed + 1, race), Some(seed), "a failing seed fails again");
        let harmless = (0..1_000).any(|seed| first_failing(seed..seed + 1, race).is_none());
        assert!(harmless, "some schedules succeed");
    }
    assert_eq!(first_failing(0..1_000, |sim| lost_update(sim, false)), None, "without the await there is no race");
}

#[test]
fn d4_explore_reports_the_failing_seed_and_how_to_replay_it() {
    let fails_at_7 = |sim: &Sim| {
        println!("ran seed {}", sim.seed());
        assert!(sim.seed() < 7, "expected failure");
    };
    if is_child() {
        return explore(0..20, fails_at_7);
    }
    let name = "d4_explore_reports_the_failing_seed_and_how_to_replay_it";
    let ran = |output: &Output| String::from_utf8_lossy(&output.stdout).matches("ran seed ").count();
    let output = run_in_child(name, &[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(text.contains("seed 7 failed") && text.contains("PLEACH_SEED=7") && text.contains("expected failure"), "{text}");
    assert_eq!(ran(&output), 8);
    // That seed alone fails again, and a good seed passes.
    let again = run_in_child(name, &[(SEED_VARIABLE, "7")]);
    assert_eq!((again.status.success(), ran(&again)), (false, 1));
    let good = run_in_child(name, &[(SEED_VARIABLE, "6")]);
    assert_eq!((good.status.success(), ran(&good)), (true, 1));
    // The number of seeds can be set from outside.
    let five = run_in_child(name, &[(SEEDS_VARIABLE, "5")]);
    assert_eq!((five.status.success(), ran(&five)), (true, 5));
    let no_seed = run_in_child(name, &[(SEED_VARIABLE, "seven")]);
    assert!(!no_seed.status.success() && String::from_utf8_lossy(&no_seed.stderr).contains("is not a seed"));
}

#[test]
fn d4_largest_seed_can_be_replayed_and_a_bad_seed_is_refused() {
    let ran = std::cell::Cell::new(0);
    if is_child() {
        return explore(0..10, |sim| {
            ran.set(ran.get() + 1);
            println!("ran {} {}", sim.seed(), ran.get());
        });
    }
    let test = "d4_largest_seed_can_be_replayed_and_a_bad_seed_is_refused";
    let output = run_in_child(test, &[(SEED_VARIABLE, "18446744073709551615")]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("ran 18446744073709551615 1"));
    assert!(!run_in_child(test, &[(SEED_VARIABLE, "-1")]).status.success());
}

#[test]
fn d4_future_may_settle_and_advance_the_simulator() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let answer = |(): &mut (), reply: Reply<u32>| {
            reply.send(7);
            Ok::<(), BoxError>(())
        };
        let actor = system.spawn("actor", Props::from_fn(|| (), answer)).unwrap();
        sim.run(async {
            for _ in 0..3 {
                // The answer wakes this future while it drives the simulator.
                let mut ask = actor.ask(|reply| reply);
                let asked = std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut ask).poll(cx))).await;
                assert!(asked.is_pending());
                sim.settle();
                sim.advance(Duration::from_secs(1));
                assert_eq!(ask.await.unwrap(), 7);
                yield_once().await;
            }
        });
    });
}

#[test]
fn d4_stalled_future_panics_and_names_the_seed() {
    let stalled = std::panic::catch_unwind(|| Sim::new(42).run(std::future::pending::<()>()));
    let text = *stalled.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("seed 42") && text.contains("can never come"), "{text}");
}

#[test]
fn d4_idle_system_of_100_000_actors_makes_no_poll_for_an_hour() {
    let sim = Sim::new(4);
    let system = sim.system("idle");
    let handled = Arc::new(AtomicUsize::new(0));
    let actors: Vec<_> = (0..100_000)
        .map(|_| {
            let handled = Arc::clone(&handled);
            let count = move |(): &mut (), _: u32| {
                handled.fetch_add(1, Ordering::Relaxed);
                Ok::<(), BoxError>(())
            };
            system.spawn_unnamed(Props::from_fn(|| (), count)).unwrap()
        })
        .collect();
    actors.iter().for_each(|actor| actor.tell(1).unwrap());
    sim.settle();
    assert_eq!(handled.load(Ordering::Relaxed), actors.len());
    let before = sim.polls();
    sim.advance(Duration::from_secs(3_600));
    assert_eq!((sim.polls(), sim.now().since_start()), (before, Duration::from_secs(3_600)));
    actors[99_999].tell(1).unwrap();
    sim.settle();
    assert_eq!(sim.polls(), before + 1, "one message, one poll");
}
