//! A13's pools: which worker gets a message, what becomes of it when workers fail, end, come and go, and that none is lost.

mod common;

use common::{Doer, Gate, INJECTED, Job, Log, dead_letters, failures, poll_once, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, DeadLetterReason, POOL_SIZE_MAX, PoolError, Refusal};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Workers that write down their place and what they are told.
fn clerks(log: &Log<(usize, u32)>) -> impl Fn(usize) -> Props<Clerk> + Send + Sync + 'static {
    let log = log.clone();
    move |place| {
        let log = log.clone();
        Props::new(move || Clerk { place, log: log.clone() })
    }
}

struct Clerk {
    place: usize,
    log: Log<(usize, u32)>,
}

enum Msg {
    Note(u32),
    Place(Reply<usize>),
    Fail(u32),
    Pass(Gate),
    Stop,
}

fn key_of(msg: &Msg) -> u32 {
    match msg {
        Msg::Note(n) | Msg::Fail(n) => *n,
        _ => 0,
    }
}

impl Actor for Clerk {
    type Msg = Msg;
    type Error = BoxError;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match msg {
            Msg::Note(n) => self.log.push((self.place, n)),
            Msg::Place(reply) => reply.send(self.place),
            Msg::Fail(n) => return Err(format!("{INJECTED} {n}").into()),
            Msg::Pass(gate) => gate.pass().await,
            Msg::Stop => cx.stop(),
        }
        Ok(())
    }
}

fn many_restarts() -> OneForOne {
    OneForOne::new().intensity(1_000, Duration::from_secs(1))
}

/// How many entries each place has.
fn shares(entries: &[(usize, u32)], places: usize) -> Vec<usize> {
    (0..places).map(|place| entries.iter().filter(|entry| entry.0 == place).count()).collect()
}

#[test]
fn a13_round_robin_gives_each_worker_its_turn_by_every_verb() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 3, clerks(&log)).build().unwrap();
        sim.run(async {
            for round in 0..4 {
                pool.tell(Msg::Note(round)).unwrap();
                pool.try_send(Msg::Note(round)).unwrap();
                pool.send(Msg::Note(round)).await.unwrap();
            }
            let mut places = Vec::new();
            for _ in 0..3 {
                places.push(pool.ask(Msg::Place).await.unwrap());
            }
            assert_eq!(places, [0, 1, 2]);
        });
        for place in 0..3 {
            let mut entries = log.take();
            let rest = entries.extract_if(.., |entry| entry.0 != place).collect::<Vec<_>>();
            assert_eq!(entries, (0..4).map(|n| (place, n)).collect::<Vec<_>>(), "each in order");
            rest.into_iter().for_each(|entry| log.push(entry));
        }
        assert_eq!((pool.size(), pool.workers().len(), pool.path().to_string().as_str()), (3, 3, "/user/pool"));
        let paths: Vec<String> = pool.workers().iter().map(|worker| worker.path().to_string()).collect();
        assert_eq!(paths, ["/user/pool/0", "/user/pool/1", "/user/pool/2"]);
        assert_eq!((pool.counts(), pool.counts().handled, pool.counts().is_settled()), (system.counts(), 15, true));
    });
}

#[test]
fn a13_least_loaded_counts_what_is_queued_and_in_hand() {
    explore(0..50, |sim| {
        let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
        let pool = system.pool("pool", 3, clerks(&log)).least_loaded().build().unwrap();
        // One in hand, nothing queued: that is a load of one.
        let busy = pool.workers()[1].clone();
        busy.tell(Msg::Pass(gate.clone())).unwrap();
        sim.settle();
        assert_eq!((busy.queued(), busy.counts().open()), (0, 1));
        for n in 0..20 {
            pool.tell(Msg::Note(n)).unwrap();
            sim.settle();
        }
        let seen = log.take();
        assert_eq!(shares(&seen, 3)[1], 0, "the busy one gets nothing while others are idle");
        assert!(shares(&seen, 3).iter().all(|share| *share <= 14), "the idle share: {seen:?}");
        // With nobody getting a turn, the load of all grows alike.
        (0..8).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        let loads: Vec<u64> = pool.workers().iter().map(|worker| worker.counts().open()).collect();
        assert_eq!(loads, [3, 3, 3]);
        gate.open();
        sim.settle();
        assert!(pool.counts().is_settled());
    });
}

#[test]
fn a13_a_key_has_one_worker_and_its_messages_keep_their_order() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 4, clerks(&log)).by_key(|msg| key_of(msg) % 10).build().unwrap();
        let senders = sim.scope();
        for from in [0, 1_000] {
            let pool = pool.clone();
            let send = async move {
                for n in from..from + 200 {
                    pool.send(Msg::Note(n)).await?;
                }
                Ok::<(), SendError<Msg>>(())
            };
            senders.launch(send).unwrap();
        }
        sim.run(senders.wait_all()).unwrap();
        sim.settle();
        let seen = log.take();
        for key in 0..10 {
            let of_key: Vec<_> = seen.iter().filter(|entry| entry.1 % 10 == key).collect();
            assert!(of_key.len() == 40 && of_key.iter().all(|entry| entry.0 == of_key[0].0), "one worker for key {key}");
            assert!(of_key.iter().filter(|entry| entry.1 < 1_000).is_sorted());
        }
        assert!(shares(&seen, 4).iter().filter(|share| **share > 0).count() >= 3, "and not one for all");
    });
}

#[test]
fn a13_about_one_key_in_n_moves_at_a_resize() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let pool = system.pool("pool", 4, clerks(&log)).by_key(key_of).build().unwrap();
    let owners = || {
        for n in 0..1_000 {
            pool.tell(Msg::Note(n)).unwrap();
            sim.settle();
        }
        log.take().into_iter().map(|(place, _)| place).collect::<Vec<_>>()
    };
    let moved = |one: &[usize], other: &[usize]| one.iter().zip(other).filter(|(one, other)| one != other).count();
    let four = owners();
    pool.resize(5).unwrap();
    let five = owners();
    assert!((150..250).contains(&moved(&four, &five)), "{} of 1000 moved", moved(&four, &five));
    pool.resize(4).unwrap();
    assert_eq!(moved(&four, &owners()), 0, "and they are back where they were");
    // A worker that ends gives its keys away, and nobody else's.
    pool.workers()[2].stop();
    sim.settle();
    let three = owners();
    assert!(four.iter().zip(&three).all(|(before, after)| if *before == 2 { *after != 2 } else { before == after }));
    pool.resize(4).unwrap();
    assert_eq!(moved(&four, &owners()), 0, "whoever is put in its place has its keys");
}

#[test]
fn a13_a_pool_that_cannot_be_made_says_why_and_leaves_nothing_behind() {
    quiet();
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let pool = |name: &str, size| system.pool(name, size, clerks(&log)).build();
    assert!(matches!(pool("none", 0), Err(PoolError::NoWorkers)));
    assert!(matches!(pool("huge", POOL_SIZE_MAX + 1), Err(PoolError::TooMany(size)) if size == POOL_SIZE_MAX + 1));
    assert!(matches!(pool("", 1), Err(PoolError::Refused(Refusal::Name(_)))));
    let no_room = |place| clerks(&Log::new())(place).mailbox(Mailbox::bounded(2 - place));
    assert!(matches!(system.pool("roomless", 3, no_room).build(), Err(PoolError::Refused(Refusal::NoCapacity))));
    let records = failures(&system);
    let panics = |place| if place < 2 { clerks(&Log::new())(place) } else { panic!("{INJECTED} into the props") };
    assert!(matches!(system.pool("panics", 3, panics).build(), Err(PoolError::Failed(_))));
    assert_eq!(records.take()[0].path().to_string(), "/user/panics");
    sim.settle();
    assert_eq!(system.root().running().len(), 2, "only the two guardians run");
    let made = pool("twin", 1).unwrap();
    assert!(matches!(pool("twin", 1), Err(PoolError::Refused(Refusal::NameTaken { .. }))));
    assert!(matches!(made.resize(0), Err(PoolError::NoWorkers)));
    assert!(matches!(made.resize(usize::MAX), Err(PoolError::TooMany(usize::MAX))));
    assert_eq!(made.size(), 1);
    made.any().stop();
    sim.settle();
    assert!(matches!(made.resize(2), Err(PoolError::Refused(Refusal::ShuttingDown { .. }))));
    let error = pleach::Error::from(PoolError::NoWorkers);
    assert!(error.to_string().contains("at least 1"), "{error}");
}

#[test]
fn a13_a_worker_that_fails_restarts_with_its_address_and_mailbox() {
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 3, clerks(&log)).strategy(many_restarts()).build().unwrap();
        let before = pool.workers();
        for n in 0..90 {
            pool.tell(if n % 10 == 0 { Msg::Fail(n) } else { Msg::Note(n) }).unwrap();
        }
        sim.settle();
        assert_eq!(pool.workers(), before);
        assert_eq!(log.len(), 81);
        assert_eq!(pool.counts(), Counts { accepted: 90, handled: 81, failed: 9, dead_lettered: 0 });
        assert_eq!(system.failures(), 9);
    });
}

#[test]
fn a13_too_many_failures_stop_the_pool_and_go_up() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 2, clerks(&log)).build().unwrap();
        (0..4).for_each(|n| pool.tell(Msg::Fail(n)).unwrap());
        assert!(matches!(sim.run(pool.any().exited()), Exit::Failed(_)));
        assert!(matches!(pool.tell(Msg::Note(7)), Err(SendError::Closed(Msg::Note(7)))));
        assert!(matches!(sim.run(pool.ask(Msg::Place)), Err(AskError::Failed(_))));
        assert!(pool.workers().is_empty() && system.counts().is_settled());
    });
}

#[test]
fn a13_a_worker_that_has_ended_is_skipped_until_none_is_left() {
    explore(0..50, |sim| {
        for routing in 0..3 {
            let (system, log) = (sim.system("s"), Log::new());
            let builder = system.pool("pool", 3, clerks(&log));
            let pool = match routing {
                0 => builder.round_robin(),
                1 => builder.least_loaded(),
                _ => builder.by_key(key_of),
            };
            let pool = pool.build().unwrap();
            for left in [2, 1] {
                pool.workers()[0].close();
                (0..20).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
                sim.settle();
                assert_eq!((log.take().len(), pool.workers().len()), (20, left));
                assert!(sim.run(pool.ask(Msg::Place)).unwrap() >= 3 - left, "those before are gone");
            }
            pool.workers()[0].close();
            assert!(matches!(sim.run(pool.send(Msg::Note(1))), Err(SendError::Closed(Msg::Note(1)))));
            assert!(matches!(pool.tell(Msg::Note(2)), Err(SendError::Closed(Msg::Note(2)))));
            assert!(matches!(pool.try_send(Msg::Note(3)), Err(SendError::Closed(Msg::Note(3)))));
            assert!(matches!(sim.run(pool.ask(Msg::Place)), Err(AskError::Closed)));
            sim.settle();
            assert!(system.counts().is_settled() && log.take().is_empty());
            pool.resize(2).unwrap();
            assert_eq!(sim.run(pool.ask(Msg::Place)).map(|place| place < 2).ok(), Some(true), "resizing brings it back");
        }
    });
}

#[test]
fn a13_the_ended_are_replaced_if_asked_for_and_only_so_often() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 1, clerks(&log)).replace_ended(2, Duration::from_secs(5)).build().unwrap();
        for n in 0..2 {
            let worker = pool.workers()[0].clone();
            worker.stop();
            sim.run(worker.exited());
            pool.tell(Msg::Note(n)).expect("there is another at once");
            sim.settle();
            assert_eq!((log.take(), pool.workers().len()), (vec![(0, n)], 1), "in the same place");
            assert_ne!(pool.workers()[0], worker);
        }
        pool.workers()[0].stop();
        sim.settle();
        assert!(matches!(pool.tell(Msg::Note(2)), Err(SendError::Closed(_))), "the third within five seconds is too many");
        pool.resize(1).unwrap();
        sim.advance(Duration::from_secs(6));
        pool.workers()[0].stop();
        sim.settle();
        pool.tell(Msg::Note(3)).expect("later it is allowed again");
        sim.settle();
        assert_eq!(log.take(), [(0, 3)]);
        assert!(system.counts().is_settled());
    });
}

#[test]
fn a13_a_pool_that_shuts_down_replaces_nobody() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let pool = system.pool("pool", 2, clerks(&log)).replace_ended(9, Duration::from_secs(5)).build().unwrap();
    (0..10).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
    pool.any().close();
    assert_eq!(sim.run(pool.any().exited()), Exit::Closed);
    assert!(matches!(pool.tell(Msg::Note(7)), Err(SendError::Closed(_))));
    assert_eq!((log.len(), pool.counts().handled, sim.tasks_alive()), (10, 10, 0));
}

#[test]
fn a13_shrinking_closes_the_youngest_and_what_they_have_is_handled() {
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let letters = dead_letters(&system);
        let pool = system.pool("pool", 4, clerks(&log)).build().unwrap();
        let all = pool.workers();
        (0..40).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        pool.resize(2).unwrap();
        assert_eq!((pool.size(), pool.workers()), (2, all[..2].to_vec()));
        (40..60).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        assert_eq!(sim.run(all[3].exited()), Exit::Closed);
        sim.settle();
        assert_eq!(shares(&log.take(), 4), [20, 20, 10, 10]);
        pool.resize(3).unwrap();
        (0..30).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        sim.settle();
        assert_eq!((shares(&log.take(), 4), letters.len()), (vec![10, 10, 10, 0], 0));
        assert!(system.counts().is_settled());
    });
}

#[test]
fn a13_a_worker_can_resize_its_own_pool() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let doers = log.clone();
    let pool = system.pool("pool", 3, move |_| Doer::props(&doers)).build().unwrap();
    for size in [1, 5] {
        let own = pool.clone();
        pool.tell(Job::act(move |_| own.resize(size).unwrap())).unwrap();
        sim.settle();
        assert_eq!((pool.workers().len(), pool.size()), (size, size));
    }
}

#[test]
fn a13_a_send_that_waits_at_a_worker_that_ends_goes_to_another() {
    explore(0..100, |sim| {
        let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
        let props = clerks(&log);
        let small = move |place| props(place).mailbox(Mailbox::bounded(1));
        let pool = system.pool("pool", 2, small).build().unwrap();
        for worker in pool.workers() {
            worker.tell(Msg::Pass(gate.clone())).unwrap();
        }
        sim.settle();
        (0..2).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        assert!(matches!(pool.tell(Msg::Note(2)), Err(SendError::Full(Msg::Note(2)))));
        assert!(matches!(pool.try_send(Msg::Note(2)), Err(SendError::Full(Msg::Note(2)))));
        let mut send = Box::pin(pool.send(Msg::Note(3)));
        let mut ask = pool.ask(Msg::Place);
        assert!(poll_once(&mut send).is_pending() && poll_once(&mut ask).is_pending());
        pool.resize(1).unwrap();
        gate.open();
        gate.open();
        sim.run(async {
            send.await.unwrap();
            gate.open();
            assert_eq!(ask.await.unwrap(), 0);
        });
        sim.settle();
        let mut seen = log.take();
        seen.sort_unstable();
        assert_eq!(seen, [(0, 0), (0, 3), (1, 1)]);
        assert!(system.counts().is_settled());
    });
}

#[test]
fn a13_dropping_a_send_that_waits_takes_the_message_back() {
    let sim = Sim::new(0);
    let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
    let props = clerks(&log);
    let pool = system.pool("pool", 1, move |place| props(place).mailbox(Mailbox::bounded(1))).build().unwrap();
    pool.tell(Msg::Pass(gate.clone())).unwrap();
    sim.settle();
    pool.tell(Msg::Note(1)).unwrap();
    let mut send = Box::pin(pool.send(Msg::Note(2)));
    assert!(poll_once(&mut send).is_pending());
    drop(send);
    gate.open();
    sim.settle();
    assert_eq!((log.take(), pool.counts().accepted), (vec![(0, 1)], 2));
}

#[test]
fn a13_an_ask_of_a_pool_says_why_there_is_no_answer() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let doers = log.clone();
    let pool = system.pool("pool", 2, move |_| Doer::props(&doers)).build().unwrap();
    assert_eq!(sim.run(pool.ask(|reply| Job::Answer(reply, 5))).unwrap(), 5);
    assert!(matches!(sim.run(pool.ask(Job::Lose)), Err(AskError::Dropped)));
    assert!(matches!(sim.run(pool.ask(Job::LoseAndFail)), Err(AskError::Failed(_))));
    let wait = Duration::from_secs(3);
    assert!(matches!(sim.run(pool.ask(Job::Keep).timeout(wait)), Err(AskError::TimedOut(after)) if after == wait));
    assert_eq!(sim.now().since_start(), wait);
    let gate = Gate::new();
    pool.workers().iter().for_each(|worker| worker.tell(Job::Pass(gate.clone(), 1)).unwrap());
    sim.settle();
    let mut ask = pool.ask(|reply| Job::Answer(reply, 6));
    assert!(poll_once(&mut ask).is_pending());
    pool.any().cancel(());
    assert!(matches!(sim.run(ask), Err(AskError::Cancelled(_))));
}

#[test]
fn a13_an_ask_of_a_pool_that_closes_a_cycle_is_an_error() {
    let sim = Sim::new(0);
    let (system, log, lints) = (sim.system("s"), Log::new(), Log::new());
    let heard = lints.clone();
    system.on_event(move |event| {
        if let Event::Lint(lint) = event {
            heard.note(format!("{lint:?}"));
        }
    });
    let doers = log.clone();
    let pool = system.pool("pool", 1, move |_| Doer::props(&doers)).build().unwrap();
    let (own, errors) = (pool.clone(), Log::new());
    let seen = errors.clone();
    let job = Job::work(move |_| async move {
        seen.push(own.ask(|reply| Job::Answer(reply, 1)).await);
        seen.push(own.ask(|reply| Job::Answer(reply, 1)).timeout(Duration::from_secs(1)).await);
        Ok(())
    });
    pool.tell(job).unwrap();
    sim.advance(Duration::from_secs(2));
    let errors = errors.take();
    assert!(matches!(&errors[0], Err(AskError::Cycle(paths)) if paths[0] == "/user/pool/0"), "{errors:?}");
    assert!(matches!(errors[1], Err(AskError::TimedOut(_))));
    assert_eq!((lints.len(), pool.counts().accepted), (1, 2), "the first question never went out");
    assert_eq!(sim.run(pool.ask(|reply| Job::Answer(reply, 2))).unwrap(), 2, "no edge is left behind");
}

#[test]
fn a13_a_pool_stands_under_whatever_made_it() {
    let sim = Sim::new(0);
    let (system, log, made) = (sim.system("s"), Log::new(), Log::new());
    let crew = system.supervisor("crew", OneForOne::new()).unwrap();
    let scope = system.scope("scope").unwrap();
    let crewed = crew.pool("pool", 2, clerks(&log)).build().unwrap();
    let scoped = scope.pool("pool", 2, clerks(&log)).build().unwrap();
    let doer = system.spawn("doer", Doer::props(&Log::new())).unwrap();
    let (pools, entries) = (made.clone(), log.clone());
    let make = move |cx: &mut Context<Doer>| pools.push(cx.pool("pool", 2, clerks(&entries)).build().unwrap());
    doer.tell(Job::act(make)).unwrap();
    sim.settle();
    let owned = made.take().remove(0);
    let paths = [&crewed, &scoped, &owned].map(|pool| pool.path().to_string());
    assert_eq!(paths, ["/user/crew/pool", "/user/scope/pool", "/user/doer/pool"]);
    for pool in [&crewed, &scoped, &owned] {
        pool.tell(Msg::Note(1)).unwrap();
    }
    sim.settle();
    assert_eq!(log.take().len(), 3);
    // It ends with what it is part of: a stopped supervisor, a dropped scope, an actor that restarts.
    crew.any().stop();
    drop(scope);
    doer.tell(Job::Fail("no")).unwrap();
    sim.settle();
    for pool in [&crewed, &scoped, &owned] {
        assert!(pool.any().exit().is_some() && matches!(pool.tell(Msg::Note(1)), Err(SendError::Closed(_))));
    }
    assert_eq!(sim.tasks_alive(), 1, "only the doer lives");
}

#[test]
fn a13_a_stopped_pool_buries_what_is_queued() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let letters = dead_letters(&system);
    let pool = system.pool("pool", 2, clerks(&log)).build().unwrap();
    (0..10).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
    pool.any().stop();
    sim.settle();
    let buried = letters.take();
    assert!(buried.iter().all(|(_, reason)| *reason == DeadLetterReason::Stopped));
    assert_eq!((log.len() + buried.len(), pool.counts().is_settled()), (10, true));
}

/// Senders by every verb, while workers fail, stop and are replaced and the pool grows and shrinks: what was accepted is accounted for,
/// and what was not came back.
#[test]
fn a13_nothing_is_lost_while_a_pool_is_resized_under_load() {
    quiet();
    explore(0..300, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let props = clerks(&log);
        let small = move |place| props(place).mailbox(Mailbox::bounded(3));
        let builder = system.pool("pool", 2, small).strategy(many_restarts()).replace_ended(50, Duration::from_secs(1));
        let pool = match sim.seed() % 3 {
            0 => builder.round_robin(),
            1 => builder.least_loaded(),
            _ => builder.by_key(key_of),
        };
        let pool = pool.build().unwrap();
        let (accepted, unclear, senders) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), sim.scope());
        for sender in 0..4u32 {
            let (pool, accepted, unclear) = (pool.clone(), Arc::clone(&accepted), Arc::clone(&unclear));
            let send = async move {
                for n in 0..25 {
                    let n = sender * 100 + n;
                    let message = match n % 11 {
                        3 => Msg::Fail(n),
                        7 => Msg::Stop,
                        _ => Msg::Note(n),
                    };
                    let sent = match sender {
                        0 => pool.tell(message).is_ok(),
                        1 => pool.try_send(message).is_ok(),
                        2 => pool.send(message).await.is_ok(),
                        _ => match pool.ask(Msg::Place).await {
                            // Either nobody was there, or whoever had the question was stopped.
                            Err(AskError::Closed) => {
                                unclear.fetch_add(1, Ordering::Relaxed);
                                false
                            }
                            _ => true,
                        },
                    };
                    accepted.fetch_add(usize::from(sent), Ordering::Relaxed);
                }
            };
            senders.launch(send).unwrap();
        }
        sim.run(async {
            for _ in 0..12 {
                pool.resize(1 + sim.runtime().random() as usize % 5).unwrap();
                for _ in 0..sim.runtime().random() % 5 {
                    sim.step_aside().await;
                }
            }
            senders.wait_all().await.unwrap();
        });
        sim.settle();
        let counts = system.counts();
        assert!(counts.is_settled(), "{counts}");
        let known = accepted.load(Ordering::Relaxed) as u64;
        assert!((known..=known + unclear.load(Ordering::Relaxed) as u64).contains(&counts.accepted), "{counts}, {known} known");
        assert!(pool.workers().len() <= pool.size());
        assert_eq!(pool.workers().len(), sim.tasks_alive(), "nobody was started and forgotten");
    });
}

#[test]
fn a13_on_threads_a_pool_is_resized_under_load() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let (system, log) = (ActorSystem::new("s").unwrap(), Log::new());
        let props = clerks(&log);
        let pool = system.pool("pool", 2, move |place| props(place).mailbox(Mailbox::bounded(8))).build().unwrap();
        let senders: Vec<_> = (0..4u32)
            .map(|sender| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    for n in 0..1_000 {
                        pool.send(Msg::Note(sender * 10_000 + n)).await.unwrap();
                    }
                })
            })
            .collect();
        let resizers: Vec<_> = [3, 5]
            .map(|step| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    for n in 0..200 {
                        pool.resize(1 + n * step % 7).unwrap();
                        tokio::task::yield_now().await;
                    }
                })
            })
            .into_iter()
            .chain(senders)
            .collect();
        for task in resizers {
            task.await.unwrap();
        }
        pool.resize(3).unwrap();
        assert_eq!((pool.workers().len(), pool.size()), (3, 3));
        system.shutdown(Duration::from_secs(10)).await.unwrap();
        let mut seen: Vec<u32> = log.take().into_iter().map(|(_, n)| n).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..4).flat_map(|sender| (0..1_000).map(move |n| sender * 10_000 + n)).collect::<Vec<_>>());
        assert!(system.counts().is_settled());
    });
}
