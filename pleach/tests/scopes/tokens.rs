//! T1, T2 and T3: cancel tokens. The effect of a cancel on running members is in
//! `cancel_running.rs`.

use crate::common::CountingWaker;
use futures::FutureExt;
use pleach::BoxError;
use pleach::prelude::*;
use pleach::runtime::{Instant, Random};
use pleach::sim::{Sim, explore};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Waker};

fn at(ms: u64) -> Instant {
    Instant::after_start(Duration::from_millis(ms))
}

/// Builds a random tree of tokens. The parent of each token is an earlier one.
fn random_tree(sim: &Sim, size: usize, mut make: impl FnMut(&CancelToken, &mut Random) -> CancelToken) -> Tree {
    let mut random = Random::seeded(sim.seed());
    let (mut tokens, mut parents) = (vec![sim.token()], vec![0]);
    for _ in 1..size {
        let parent = random.below(tokens.len());
        tokens.push(make(&tokens[parent], &mut random));
        parents.push(parent);
    }
    Tree { tokens, parents, random }
}

struct Tree {
    tokens: Vec<CancelToken>,
    parents: Vec<usize>,
    random: Random,
}

impl Tree {
    /// The indices from `token` up to the root.
    fn upwards(&self, token: usize) -> Vec<usize> {
        let mut ancestors = vec![token];
        while *ancestors.last().unwrap() != 0 {
            ancestors.push(self.parents[*ancestors.last().unwrap()]);
        }
        ancestors
    }
}

#[test]
fn t1_cancel_reaches_every_descendant_and_no_other_token() {
    explore(0..200, |sim| {
        let mut tree = random_tree(sim, 40, |parent, _| parent.child());
        let hit = tree.random.below(40);
        tree.tokens[hit].cancel("hit");
        for token in 0..40 {
            let expected = tree.upwards(token).contains(&hit).then(|| "hit".into());
            assert_eq!(tree.tokens[token].cause(), expected, "token {token}, cancelled {hit}");
        }
        // A child created after the cancel is cancelled too.
        assert_eq!(tree.tokens[hit].child().child().cause(), Some("hit".into()));
    });
}

#[test]
fn t1_earliest_deadline_of_all_ancestors_wins() {
    explore(0..100, |sim| {
        let mut deadlines = vec![u64::MAX];
        let tree = random_tree(sim, 20, |parent, random| {
            let ms = 1 + random.below(50) as u64;
            deadlines.push(if random.below(3) == 0 { u64::MAX } else { ms });
            if deadlines.last() == Some(&u64::MAX) { parent.child() } else { parent.child_until(at(ms)) }
        });
        let due = |token: usize| tree.upwards(token).into_iter().map(|above| deadlines[above]).min().unwrap();
        for now in [10, 25, 50] {
            sim.advance(at(now) - sim.now());
            for (index, token) in tree.tokens.iter().enumerate() {
                let due = due(index);
                assert_eq!(token.deadline(), (due != u64::MAX).then(|| at(due)));
                assert_eq!(token.cause(), (due <= now).then_some(Cause::DeadlineExceeded), "due at {due}, now {now}");
            }
        }
    });
}

#[test]
fn t1_scopes_inherit_deadlines() {
    let sim = Sim::new(1);
    let scope = Scope::under(&sim.token().child_for(Duration::from_millis(20)));
    let inner = scope.scope("inner").unwrap();
    assert_eq!(scope.token().deadline(), Some(at(20)));
    assert_eq!(inner.token().deadline(), Some(at(20)));
    assert_eq!(inner.token().child_until(at(30)).deadline(), Some(at(20)));
    assert_eq!(inner.token().child_until(at(10)).deadline(), Some(at(10)));
    let task = inner.launch(pending::<()>()).unwrap();
    assert_eq!(sim.run(task.exited()), Exit::Cancelled(Cause::DeadlineExceeded));
    assert_eq!(sim.now(), at(20));
}

#[test]
fn t1_past_deadline_cancels_at_once_and_infinite_never() {
    let sim = Sim::new(1);
    sim.advance(Duration::from_secs(1));
    let root = sim.token();
    assert_eq!(root.child_until(at(999)).cause(), Some(Cause::DeadlineExceeded));
    assert_eq!(root.child_for(Duration::ZERO).cause(), Some(Cause::DeadlineExceeded));
    let never = root.child_for(Duration::MAX);
    sim.advance(Duration::from_secs(1_000_000_000));
    assert!(!never.is_cancelled() && !root.is_cancelled());
    assert_eq!(sim.tasks_alive(), 0);
}

#[test]
fn t2_first_cause_wins_in_every_schedule() {
    let winners = Mutex::new(std::collections::BTreeSet::new());
    explore(0..200, |sim| {
        let root = sim.token();
        let (below, scope) = (root.child().child(), Scope::under(&root));
        let child = scope.launch(pending::<()>()).unwrap();
        let cancels = sim.scope();
        for cause in ["a", "b", "c"] {
            let root = root.clone();
            cancels.launch(async move { root.cancel(cause) }).unwrap();
        }
        sim.run(cancels.wait_all()).unwrap();
        let first = root.cause().expect("the token is cancelled");
        root.cancel("later");
        root.cancel(());
        scope.cancel("later");
        for token in [&root, &below, &scope.token(), &root.child()] {
            assert_eq!(token.cause(), Some(first.clone()));
        }
        assert_eq!(sim.run(child.exited()), Exit::Cancelled(first.clone()));
        winners.lock().unwrap().insert(first.to_string());
    });
    assert_eq!(winners.into_inner().unwrap().len(), 3, "the seeds must try more than one order");
}

#[test]
fn t2_each_kind_of_end_has_its_cause() {
    let sim = Sim::new(2);
    let plain = sim.token();
    plain.cancel(());
    assert_eq!(plain.cause(), Some(Cause::Cancelled));

    let late = sim.token().child_for(Duration::from_millis(1));
    sim.advance(Duration::from_millis(1));
    assert_eq!(late.cause(), Some(Cause::DeadlineExceeded));

    let system = sim.system("causes");
    let scope = system.scope("failing").unwrap();
    let (token, below) = (scope.token(), scope.token().child());
    let sibling = scope.task().named("sibling").launch(pending::<()>()).unwrap();
    scope.task().named("bad").launch(async { Err::<(), BoxError>("no luck".into()) }).unwrap();
    let Exit::Cancelled(cause) = sim.run(sibling.exited()) else { panic!("not cancelled") };
    let failure = cause.failure().expect("caused by a failure");
    assert_eq!(failure.path().to_string(), "/user/failing/bad");
    assert_eq!(failure.reason().to_string(), "no luck");
    assert_eq!((token.cause(), below.cause()), (Some(cause.clone()), Some(cause)));

    let scope = system.scope("dropped").unwrap();
    let (token, task) = (scope.token(), scope.launch(pending::<()>()).unwrap());
    drop(scope);
    assert_eq!(token.cause(), Some(Cause::Dropped));
    assert_eq!(sim.run(task.exited()), Exit::Cancelled(Cause::Dropped));
}

#[test]
fn t2_token_of_an_ended_scope_is_cancelled() {
    let sim = Sim::new(2);
    let system = sim.system("ends");
    for end in [Scope::close, Scope::stop] {
        let scope = system.scope("scope").unwrap();
        let (token, below) = (scope.token(), Scope::under(&scope.token()));
        let helper = below.launch(pending::<()>()).unwrap();
        let (seen_token, at_end) = (token.clone(), Arc::new(Mutex::new(None)));
        let cause_at_end = Arc::clone(&at_end);
        scope.on_done(move |_| *cause_at_end.lock().unwrap() = seen_token.cause());
        assert_eq!(token.cause(), None);
        end(&scope);
        assert!(sim.run(scope.exited()).is_clean());
        assert_eq!(at_end.lock().unwrap().take(), Some(Cause::Cancelled), "cancelled before `on_done` runs");
        assert_eq!((token.cause(), scope.token().cause()), (Some(Cause::Cancelled), Some(Cause::Cancelled)));
        assert_eq!(sim.run(helper.exited()), Exit::Cancelled(Cause::Cancelled));

        let early = system.scope("early").unwrap();
        end(&early);
        sim.run(early.exited());
        assert_eq!(early.token().cause(), Some(Cause::Cancelled), "also a token taken after the end");
    }
}

/// Fails on every message and exports the token of its first incarnation.
struct ExportsToken(Arc<Mutex<Option<CancelToken>>>);

impl Actor for ExportsToken {
    type Msg = ();
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.lock().unwrap().get_or_insert_with(|| cx.token());
        Ok(())
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err("no luck".into())
    }
}

#[test]
fn t2_token_of_an_actor_survives_restarts_and_ends_with_it() {
    for failing in [false, true] {
        let sim = Sim::new(2);
        let system = sim.system("ends");
        let exported = Arc::new(Mutex::new(None));
        let export = Arc::clone(&exported);
        let actor = system.spawn("actor", Props::new(move || ExportsToken(Arc::clone(&export)))).unwrap();
        (0..3).for_each(|_| actor.tell(()).unwrap());
        sim.settle();
        let token: CancelToken = exported.lock().unwrap().take().expect("the actor has started");
        assert_eq!((token.cause(), actor.counts().failed), (None, 3), "three restarts do not cancel it");
        if failing {
            actor.tell(()).unwrap();
        } else {
            actor.stop();
        }
        match sim.run(actor.exited()) {
            Exit::Failed(failure) => assert_eq!(token.cause(), Some(Cause::Failed(failure))),
            exit => assert_eq!((exit, token.cause()), (Exit::Stopped, Some(Cause::Cancelled))),
        }
    }
}

#[test]
fn t3_every_waiter_is_woken_early_or_late() {
    explore(0..200, |sim| {
        let token = sim.token();
        let woken = Arc::new(AtomicUsize::new(0));
        let waiters = sim.scope();
        for _ in 0..10 {
            let (token, woken) = (token.clone(), Arc::clone(&woken));
            let waiting = async move {
                assert_eq!(token.cancelled().await, "now".into());
                woken.fetch_add(1, Ordering::Relaxed);
            };
            waiters.launch(waiting).unwrap();
        }
        // Depending on the seed, some waiters are registered and some are not.
        sim.run(async {
            for _ in 0..sim.seed() % 8 {
                sim.yield_now().await;
            }
            token.cancel("now");
            waiters.wait_all().await.unwrap();
        });
        assert_eq!(woken.load(Ordering::Relaxed), 10);
    });
}

#[test]
fn t3_dropped_waiter_leaves_nothing_behind() {
    let sim = Sim::new(3);
    let token = sim.token();
    let woken = Arc::new(CountingWaker::default());
    let waker = Waker::from(Arc::clone(&woken));
    for _ in 0..1_000_000 {
        let mut waiting = token.cancelled();
        assert!(waiting.poll_unpin(&mut TaskContext::from_waker(&waker)).is_pending());
    }
    assert_eq!(Arc::strong_count(&woken), 2, "the token still holds wakers of dropped futures");
    let mut kept = token.cancelled();
    assert!(kept.poll_unpin(&mut TaskContext::from_waker(&waker)).is_pending());
    token.cancel(());
    assert_eq!(woken.wakes(), 1, "only the remaining waiter is woken");
    assert!(kept.poll_unpin(&mut TaskContext::from_waker(&waker)).is_ready());
    assert_eq!(Arc::strong_count(&woken), 2);
}
