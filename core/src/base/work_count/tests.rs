//! Checks that the work of tree operations grows linearly with the number of members.

use super::*;
use crate::actor::Actor;
use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::actor::system_message::SystemMessage;
use crate::actor::timers::{AnyTimers as _, Timers};
use crate::base::reason::BoxError;
use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::dispatcher::Dispatcher;
use crate::events::cause::{Cause, Exit};
use crate::events::failure::FailureInfo;
use crate::inspect::snapshot::SnapshotQuery;
use crate::mailbox::Mailbox;
use crate::routing::topic::{SlowSubscriber, Topic};
use crate::scope::Scope;
use crate::scope::supervisor::Supervisor;
use crate::supervise::decide::SupervisorDirective;
use crate::system::System;
use crate::tree::member::WaitingMember;
use crate::tree::supervision::strategy::{OneForAll, OneForOne};
use crate::tree::token::CancelToken;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

const FEW: usize = 500;

fn scope(sim: &Dispatcher) -> Scope {
    Scope::under(&CancelToken::root(sim.runtime()))
}

/// An actor that fails on the message `true`.
fn failing() -> Props<impl Actor<Msg = bool>> {
    Props::from_fn(|| (), |(), fail| if fail { Err::<(), BoxError>("asked to fail".into()) } else { Ok(()) })
}

/// Runs `work` at two sizes. Fails if the larger run visits more than four times as many entries; a
/// third is allowed on top for sorting.
fn grows_linearly(what: &str, work: impl Fn(usize)) {
    let visited = |n| {
        take_count();
        work(n);
        take_count()
    };
    let (few, many) = (visited(FEW), visited(4 * FEW));
    assert!(few > 0 && many <= few * 4 + few * 4 / 3, "{what}: {few} visits for {FEW}, {many} for {}", 4 * FEW);
}

fn supervised(sim: &Dispatcher, children: usize, all: bool) -> (Scope, Supervisor, Vec<ActorRef<bool>>) {
    let scope = scope(sim);
    let above = scope.supervisor("above", OneForOne::new()).unwrap();
    let workers =
        if all { above.supervisor("workers", OneForAll::new()) } else { above.supervisor("workers", OneForOne::new()) };
    let workers = workers.unwrap();
    let actors = (0..children).map(|_| workers.spawn_unnamed(failing()).unwrap()).collect();
    sim.drain_ready();
    (scope, workers, actors)
}

#[test]
fn s14_many_children_failing_at_once_cost_linear_work() {
    grows_linearly("failures above the limit", |children| {
        let sim = Dispatcher::seeded(1);
        let scope = scope(&sim);
        let above = scope.supervisor("above", |_: &FailureInfo| SupervisorDirective::Stop).unwrap();
        let workers = above.supervisor("workers", OneForOne::new()).unwrap();
        let actors: Vec<_> = (0..children).map(|_| workers.spawn_unnamed(failing()).unwrap()).collect();
        sim.drain_ready();
        actors.iter().for_each(|actor| actor.tell(true).unwrap());
        sim.drain_ready();
        assert!(actors.iter().all(|actor| actor.exit().is_some()));
    });
}

#[test]
fn s14_restart_of_a_supervisor_costs_linear_work() {
    grows_linearly("failures above the limit, restarted above", |children| {
        let sim = Dispatcher::seeded(1);
        let (_scope, _supervisor, actors) = supervised(&sim, children, false);
        actors.iter().for_each(|actor| actor.tell(true).unwrap());
        sim.drain_ready();
        assert!(actors.iter().all(|actor| actor.exit().is_none()), "the supervisor above has restarted them");
    });
}

#[test]
fn s14_one_for_all_costs_linear_work() {
    for loaded in [false, true] {
        grows_linearly("one for all", |children| {
            let sim = Dispatcher::seeded(1);
            let (_scope, _supervisor, actors) = supervised(&sim, children, true);
            if loaded {
                actors.iter().for_each(|actor| actor.cell().any().suspend());
                actors.iter().for_each(|actor| actor.tell(false).unwrap());
            }
            actors[children / 2].tell(true).unwrap();
            actors[children / 2].cell().any().resume();
            sim.drain_ready();
            assert!(actors.iter().all(|actor| actor.exit().is_none()));
        });
    }
}

/// Starts a child of the same kind, until `self.0` levels exist.
struct ChainLink(usize);

impl Actor for ChainLink {
    type Msg = ();
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let left = self.0;
        if left > 0 {
            cx.spawn("next", Props::new(move || ChainLink(left - 1)))?;
        }
        Ok(())
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

#[test]
fn s14_deep_actor_chain_starts_and_ends_in_linear_work() {
    type End = fn(&Scope, &ActorRef<()>);
    let ends: [(&str, End); 3] = [
        ("stopped", |_, first| first.stop()),
        ("cancelled", |scope, _| scope.cancel(Cause::Cancelled)),
        ("killed from the first actor on", |_, first| first.cancel(Cause::Cancelled)),
    ];
    for (how, end) in ends {
        grows_linearly(&format!("a chain of actors, {how}"), |depth| {
            let sim = Dispatcher::seeded(1);
            let scope = scope(&sim);
            let first = scope.spawn("first", Props::new(move || ChainLink(depth))).unwrap();
            sim.drain_ready();
            end(&scope, &first);
            sim.drain_ready();
            assert_eq!(sim.tasks_alive(), 0);
        });
    }
}

/// Nests supervisors, with one actor in each.
fn nested(scope: &Scope, depth: usize) -> Vec<Supervisor> {
    let mut nested = Vec::from([scope.supervisor("top", OneForOne::new()).unwrap()]);
    for _ in 1..depth {
        let inner = nested[nested.len() - 1].supervisor("inner", OneForOne::new()).unwrap();
        inner.spawn("actor", failing()).unwrap();
        nested.push(inner);
    }
    nested
}

#[test]
fn s14_nested_supervisors_restart_with_linear_work() {
    grows_linearly("nested supervisors", |depth| {
        let sim = Dispatcher::seeded(1);
        let scope = scope(&sim);
        let nested = nested(&scope, depth);
        sim.drain_ready();
        nested[0].restart_child("inner").unwrap();
        sim.drain_ready();
        let actor = nested[depth - 1].child("actor").unwrap();
        assert_eq!(actor.exit(), None);
    });
}

/// Returns a chain of supervisors below `above` that all escalate.
fn nested_below(above: &Supervisor, depth: usize) -> Vec<Supervisor> {
    let mut chain = Vec::from([above.clone()]);
    while chain.len() < depth {
        let inner = chain[chain.len() - 1].supervisor("inner", |_: &FailureInfo| SupervisorDirective::Escalate).unwrap();
        chain.push(inner);
    }
    chain
}

#[test]
fn s14_deep_escalation_costs_linear_work() {
    for restarted in [false, true] {
        grows_linearly("a deep escalation", |depth| {
            let sim = Dispatcher::seeded(1);
            let scope = scope(&sim);
            let decide = move |_: &FailureInfo| match restarted {
                true => SupervisorDirective::Restart,
                false => SupervisorDirective::Stop,
            };
            let above = scope.supervisor("above", decide).unwrap();
            let first = above.supervisor("first", |_: &FailureInfo| SupervisorDirective::Escalate).unwrap();
            let chain = nested_below(&first, depth);
            let actor = chain[depth - 1].spawn("actor", failing()).unwrap();
            sim.drain_ready();
            take_count();
            actor.tell(true).unwrap();
            sim.drain_ready();
            assert_eq!(actor.exit().is_none(), restarted);
            assert_eq!(first.any().exit().is_none(), restarted);
        });
    }
}

/// Runs `work` on a thread whose stack is too small for one call per level.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(128 << 10).spawn(work).unwrap().join().unwrap();
}

#[test]
fn s14_nested_supervisors_restart_on_a_small_stack() {
    on_a_small_stack(|| {
        let sim = Dispatcher::seeded(1);
        let scope = scope(&sim);
        let nested = nested(&scope, 10_000);
        sim.drain_ready();
        nested[0].restart_child("inner").unwrap();
        sim.drain_ready();
        nested[9_998].restart_child("inner").unwrap();
        sim.drain_ready();
    });
}

/// Each scope is watched, so its node keeps a weak reference until the end.
#[test]
fn s14_deep_watched_branch_drops_on_a_small_stack() {
    on_a_small_stack(|| {
        let sim = Dispatcher::seeded(1);
        let scope = scope(&sim);
        let mut nested = Vec::from([scope.scope("first").unwrap()]);
        for _ in 0..12_000 {
            let inner = nested[nested.len() - 1].scope("inner").unwrap();
            nested.push(inner);
        }
        let weak: Vec<_> = nested.iter().map(|scope| Arc::downgrade(&scope.any().member)).collect();
        let last = nested[nested.len() - 1].any();
        scope.cancel(Cause::Cancelled);
        drop((nested, scope));
        sim.drain_ready();
        assert!(weak.iter().all(|member| member.strong_count() > 0), "the last one holds all above it");
        drop(last);
        assert!(weak.iter().all(|member| member.strong_count() == 0));
    });
}

#[test]
fn s14_many_topic_subscriptions_cost_linear_work() {
    grows_linearly("subscribing", |subscribers| {
        let sim = Dispatcher::seeded(1);
        let scope = scope(&sim);
        let topic = Topic::<bool>::new();
        let actors: Vec<_> = (0..subscribers).map(|n| scope.spawn(&format!("{n}"), failing()).unwrap()).collect();
        actors.iter().for_each(|actor| drop(topic.subscribe(actor, SlowSubscriber::Drop)));
        assert_eq!(topic.subscribers(), subscribers);
    });
}

#[test]
fn s14_cancelling_many_timers_costs_linear_work() {
    grows_linearly("cancelling timers", |timers| {
        let mut waiting = Timers::new(0);
        let at = Instant::after_start(Duration::from_secs(1));
        let keys: Vec<_> = (0..timers).map(|_| waiting.after(at, ())).collect();
        assert!(keys.iter().rev().all(|key| waiting.cancel(*key)));
        assert!(waiting.is_empty() && !waiting.cancel(keys[0]));
    });
}

#[test]
fn s14_first_tell_to_an_ended_pool_costs_linear_work() {
    grows_linearly("a tell to an ended pool", |workers| {
        let sim = Dispatcher::seeded(1);
        let scope = scope(&sim);
        let pool = scope.pool("pool", workers, |_| failing()).build().unwrap();
        sim.drain_ready();
        pool.any().stop();
        sim.drain_ready();
        assert!(pool.tell(true).is_err());
    });
}

/// An actor whose `stopped` hook never returns.
struct Stuck;

impl Actor for Stuck {
    type Msg = ();
    type Error = BoxError;

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err("asked to fail".into())
    }

    async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        core::future::pending().await
    }
}

#[test]
fn s14_restart_with_stuck_hooks_costs_linear_work() {
    grows_linearly("a group with stuck hooks", |children| {
        let sim = Dispatcher::seeded(1);
        let scope = scope(&sim);
        let group = scope.supervisor("group", OneForAll::new()).unwrap();
        let actors: Vec<_> = (0..children).map(|_| group.spawn_unnamed(Props::new(|| Stuck)).unwrap()).collect();
        sim.drain_ready();
        actors[0].tell(()).unwrap();
        sim.run_until_time(Instant::after_start(3 * crate::tree::GRACE_DEFAULT));
        assert!(
            group.any().member.node().with_supervision(|supervision| supervision.restart_plan.is_none()),
            "all are up again"
        );
    });
}

/// Sends a message from its `started` hook and awaits the send.
struct Sends(ActorRef<bool>);

impl Actor for Sends {
    type Msg = ();
    type Error = BoxError;

    async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Ok(self.0.send(false).await?)
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Starts `self.0` children that send to it.
struct Crowd(usize);

impl Actor for Crowd {
    type Msg = bool;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        for _ in 0..self.0 {
            let me = cx.me();
            cx.spawn_unnamed(Props::new(move || Sends(me.clone())))?;
        }
        Ok(())
    }

    async fn handle(&mut self, _: bool, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

#[test]
fn s14_children_sending_to_restarting_parent_cost_linear_work() {
    grows_linearly("children that wait for their parent", |children| {
        let sim = Dispatcher::seeded(1);
        let scope = scope(&sim);
        let props = Props::new(move || Crowd(children)).mailbox(Mailbox::bounded(1));
        let parent = scope.spawn("parent", props).unwrap();
        parent.cell().any().suspend();
        sim.drain_ready();
        parent.try_send_system(SystemMessage::Restart).unwrap();
        sim.drain_ready();
        assert_eq!(parent.counts().handled, 2 * children as u64, "each child of both incarnations has sent");
    });
}

/// Publishes each message that it receives.
struct Publishes(Topic<bool>);

impl Actor for Publishes {
    type Msg = bool;
    type Error = BoxError;

    async fn handle(&mut self, message: bool, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.publish(message).await;
        Ok(())
    }
}

#[test]
fn s14_waiting_for_room_in_many_mailboxes_costs_linear_work() {
    grows_linearly("waiting for room in many mailboxes", |subscribers| {
        let sim = Dispatcher::seeded(1);
        let (scope, topic) = (scope(&sim), Topic::<bool>::new());
        let small = |n| scope.spawn(&format!("{n}"), failing().mailbox(Mailbox::bounded(1))).unwrap();
        let actors: Vec<_> = (0..subscribers).map(small).collect();
        for actor in &actors {
            drop(topic.subscribe(actor, SlowSubscriber::Wait));
            actor.cell().any().suspend();
            actor.tell(false).unwrap();
        }
        let published = topic.clone();
        let publisher = scope.spawn("publisher", Props::new(move || Publishes(published.clone()))).unwrap();
        publisher.tell(false).unwrap();
        sim.drain_ready();
        assert_eq!(publisher.cell().edges().len(), subscribers);
        publisher.cancel(Cause::Cancelled);
        sim.drain_ready();
        assert!(publisher.exit().is_some() && publisher.cell().edges().is_empty());
    });
}

/// A page near the end of many siblings costs what the first page costs.
#[test]
fn o1_page_costs_the_same_whatever_comes_before_it() {
    let pages = |siblings: usize| {
        let sim = Dispatcher::seeded(1);
        let system = System::builder("s", sim.runtime()).build().unwrap();
        (0..siblings).for_each(|_| drop(system.spawn_unnamed(failing()).unwrap()));
        sim.drain_ready();
        let mut query = SnapshotQuery::at("/user".parse().unwrap()).limit(50);
        let mut costs = Vec::new();
        loop {
            take_count();
            let page = system.snapshot(&query).unwrap();
            costs.push(take_count());
            match page.next {
                Some(next) => query = query.after(next),
                None => return costs,
            }
        }
    };
    let (few, many) = (pages(FEW), pages(20 * FEW));
    assert_eq!(many.len(), 20 * FEW / 50 + 1);
    // The last page also passes the unused memory of the table.
    let dearest = |costs: &[u64]| costs[..costs.len() - 1].iter().copied().max().unwrap();
    assert!(dearest(&many) <= dearest(&few) + 2, "{few:?} {:?}", dearest(&many));
    assert!(many[many.len() - 1] <= 20 * FEW as u64, "{:?}", many.last());
}

/// Free places are passed at most once by a whole walk, a bounded number of them in each page.
#[test]
fn o1_free_places_are_passed_in_bounded_parts() {
    let sim = Dispatcher::seeded(1);
    let system = System::builder("s", sim.runtime()).build().unwrap();
    let actors: Vec<_> = (0..20_000).map(|_| system.spawn_unnamed(failing()).unwrap()).collect();
    sim.drain_ready();
    actors[..19_999].iter().for_each(|actor| actor.stop());
    sim.drain_ready();
    take_count();
    let page = system.snapshot(&SnapshotQuery::at("/user".parse().unwrap())).unwrap();
    assert_eq!((page.members.len(), page.next), (2, None));
    let passed = take_count();
    assert!((20_000..60_000).contains(&passed), "{passed}");
}

/// The n-th child of many costs one look at 256 places, once the table is counted, also while
/// children come and go.
#[test]
fn k2_window_far_inside_a_branch_costs_as_much_as_at_its_beginning() {
    let sim = Dispatcher::seeded(1);
    let system = System::builder("s", sim.runtime()).build().unwrap();
    let user = system.root().lookup_any(&"/user".parse().unwrap()).unwrap();
    let mut actors: Vec<_> = (0..30_000).map(|_| system.spawn_unnamed(failing()).unwrap()).collect();
    sim.drain_ready();
    take_count();
    assert!(user.index_children(usize::MAX));
    let counted = take_count();
    assert!((30_000..70_000).contains(&counted), "{counted} places are counted once");
    let mut random = 7_usize;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for round in 0..300 {
        let ended = actors.swap_remove(next(actors.len()));
        ended.stop();
        sim.drain_ready();
        if round % 3 == 0 {
            actors.push(system.spawn_unnamed(failing()).unwrap());
        }
        let wanted = next(actors.len()) as u64;
        take_count();
        let found = user.children_from(wanted).next().unwrap();
        let cost = take_count();
        assert!(cost <= 3 * 256, "child {wanted} cost {cost} places");
        assert_eq!(found.index_in_parent(), Some(wanted));
        assert!(take_count() <= 256);
    }
    let walked: Vec<_> = user.children_from(0).map(|child| child.id()).collect();
    assert_eq!(walked.len() as u64, user.children_count());
    for at in (0..walked.len()).step_by(997) {
        assert_eq!(user.children_from(at as u64).next().unwrap().id(), walked[at], "child {at}");
    }
    assert!(user.children_from(walked.len() as u64).next().is_none());
}

/// Without further windows, a table whose children change drops its index.
#[test]
fn k2_index_of_children_ends_when_no_observer_uses_it() {
    let sim = Dispatcher::seeded(1);
    let system = System::builder("s", sim.runtime()).build().unwrap();
    let user = system.root().lookup_any(&"/user".parse().unwrap()).unwrap();
    let kept: Vec<_> = (0..2_000).map(|_| system.spawn_unnamed(failing()).unwrap()).collect();
    assert!(user.index_children(usize::MAX));
    take_count();
    user.index_children(usize::MAX);
    assert_eq!(take_count(), 0, "nothing is left to count");
    for _ in 0..2_100 {
        system.spawn_unnamed(failing()).unwrap().stop();
        sim.drain_ready();
    }
    take_count();
    assert_eq!(user.children_from(1_999).next().unwrap().id(), kept[1_999].any().id());
    assert!(take_count() >= 2_000, "counted again");
}
