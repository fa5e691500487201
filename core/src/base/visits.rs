//! Counts the entries that loops over members, links, workers and subscribers visit, so that tests can tell how the cost of an operation grows.
//! Outside of unit tests it does nothing.

#[cfg(all(test, feature = "std"))]
std::thread_local! {
    static VISITED: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// So many more entries were visited.
#[inline(always)]
pub(crate) fn visit(entries: usize) {
    #[cfg(all(test, feature = "std"))]
    VISITED.with(|visited| visited.set(visited.get() + entries as u64));
    #[cfg(not(all(test, feature = "std")))]
    let _ = entries;
}

/// How many entries this thread has visited since this was asked last.
#[cfg(all(test, feature = "std", not(loom)))]
pub(crate) fn take_visited() -> u64 {
    VISITED.with(|visited| visited.replace(0))
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::actor::Actor;
    use crate::actor::actor_ref::ActorRef;
    use crate::actor::context::Context;
    use crate::actor::props::Props;
    use crate::actor::system_message::SystemMessage;
    use crate::actor::timers::Timers;
    use crate::base::reason::BoxError;
    use crate::base::time::Instant;
    use crate::dispatcher::Dispatcher;
    use crate::events::cause::{Cause, Exit};
    use crate::events::failure::FailureInfo;
    use crate::mailbox::Mailbox;
    use crate::routing::topic::{SlowSubscriber, Topic};
    use crate::scope::Scope;
    use crate::scope::supervisor::Supervisor;
    use crate::supervise::decide::SupervisorDirective;
    use crate::tree::member::Member;
    use crate::tree::supervision::strategy::{OneForAll, OneForOne};
    use crate::tree::token::CancelToken;
    use alloc::format;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::time::Duration;

    const FEW: usize = 500;

    fn scope(sim: &Dispatcher) -> Scope {
        Scope::under(&CancelToken::root(sim.runtime()))
    }

    /// Fails when it is told `true`.
    fn failing() -> Props<impl Actor<Msg = bool>> {
        Props::from_fn(|| (), |(), fail| if fail { Err::<(), BoxError>("failed as told".into()) } else { Ok(()) })
    }

    /// Runs `work` at two sizes, and fails if the larger one visits more than its share, with a third to spare for sorting.
    fn grows_linearly(what: &str, work: impl Fn(usize)) {
        let visited = |n| {
            take_visited();
            work(n);
            take_visited()
        };
        let (few, many) = (visited(FEW), visited(4 * FEW));
        assert!(few > 0 && many <= few * 4 + few * 4 / 3, "{what}: {few} visits for {FEW}, {many} for {}", 4 * FEW);
    }

    fn crew(sim: &Dispatcher, children: usize, all: bool) -> (Scope, Supervisor, Vec<ActorRef<bool>>) {
        let scope = scope(sim);
        let above = scope.supervisor("above", OneForOne::new()).unwrap();
        let crew = if all { above.supervisor("crew", OneForAll::new()) } else { above.supervisor("crew", OneForOne::new()) };
        let crew = crew.unwrap();
        let actors = (0..children).map(|_| crew.spawn_unnamed(failing()).unwrap()).collect();
        sim.drain_ready();
        (scope, crew, actors)
    }

    #[test]
    fn s14_a_supervisor_whose_children_all_fail_at_once_costs_linear_work() {
        grows_linearly("failures above the limit", |children| {
            let sim = Dispatcher::seeded(1);
            let scope = scope(&sim);
            let above = scope.supervisor("above", |_: &FailureInfo| SupervisorDirective::Stop).unwrap();
            let crew = above.supervisor("crew", OneForOne::new()).unwrap();
            let actors: Vec<_> = (0..children).map(|_| crew.spawn_unnamed(failing()).unwrap()).collect();
            sim.drain_ready();
            actors.iter().for_each(|actor| actor.tell(true).unwrap());
            sim.drain_ready();
            assert!(actors.iter().all(|actor| actor.exit().is_some()));
        });
    }

    #[test]
    fn s14_a_supervisor_that_its_parent_restarts_costs_linear_work() {
        grows_linearly("failures above the limit, restarted above", |children| {
            let sim = Dispatcher::seeded(1);
            let (_scope, _crew, actors) = crew(&sim, children, false);
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
                let (_scope, _crew, actors) = crew(&sim, children, true);
                if loaded {
                    actors.iter().for_each(|actor| actor.cell().suspend());
                    actors.iter().for_each(|actor| actor.tell(false).unwrap());
                }
                actors[children / 2].tell(true).unwrap();
                actors[children / 2].cell().resume();
                sim.drain_ready();
                assert!(actors.iter().all(|actor| actor.exit().is_none()));
            });
        }
    }

    /// Starts a child, which does the same, until so many are there.
    struct ParentLink(usize);

    impl Actor for ParentLink {
        type Msg = ();
        type Error = BoxError;

        async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
            let left = self.0;
            if left > 0 {
                cx.spawn("next", Props::new(move || ParentLink(left - 1)))?;
            }
            Ok(())
        }

        async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    #[test]
    fn s14_a_chain_of_actors_costs_linear_work_to_start_and_to_end() {
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
                let first = scope.actor("first", Props::new(move || ParentLink(depth))).unwrap();
                sim.drain_ready();
                end(&scope, &first);
                sim.drain_ready();
                assert_eq!(sim.tasks_alive(), 0);
            });
        }
    }

    /// Supervisors within each other, with one actor in each.
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

    /// A chain of supervisors below `above` that all hand failures up.
    fn nested_below(above: &Supervisor, depth: usize) -> Vec<Supervisor> {
        let mut chain = Vec::from([above.clone()]);
        while chain.len() < depth {
            let inner = chain[chain.len() - 1].supervisor("inner", |_: &FailureInfo| SupervisorDirective::Escalate).unwrap();
            chain.push(inner);
        }
        chain
    }

    #[test]
    fn s14_failure_that_escalates_through_a_deep_chain_costs_linear_work() {
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
                take_visited();
                actor.tell(true).unwrap();
                sim.drain_ready();
                assert_eq!(actor.exit().is_none(), restarted);
                assert_eq!(first.any().exit().is_none(), restarted);
            });
        }
    }

    /// Runs `work` on a thread whose stack would not hold a call for each level.
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

    /// Passes its stack on to nobody: each scope is watched, so its node has a weak reference until the end.
    #[test]
    fn s14_a_deep_branch_with_watchers_is_dropped_on_a_small_stack() {
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
    fn s14_subscribing_many_to_a_topic_costs_linear_work() {
        grows_linearly("subscribing", |subscribers| {
            let sim = Dispatcher::seeded(1);
            let scope = scope(&sim);
            let topic = Topic::<bool>::new();
            let actors: Vec<_> = (0..subscribers).map(|n| scope.actor(&format!("{n}"), failing()).unwrap()).collect();
            actors.iter().for_each(|actor| drop(topic.subscribe(actor, SlowSubscriber::Drop)));
            assert_eq!(topic.subscribers(), subscribers);
        });
    }

    #[test]
    fn s14_cancelling_many_timers_costs_linear_work() {
        grows_linearly("cancelling timers", |timers| {
            let mut waiting = Timers::default();
            let at = Instant::after_start(Duration::from_secs(1));
            let keys: Vec<_> = (0..timers).map(|_| waiting.after(at, ())).collect();
            assert!(keys.iter().rev().all(|key| waiting.cancel(*key)));
            assert!(waiting.is_empty() && !waiting.cancel(keys[0]));
        });
    }

    #[test]
    fn s14_the_first_tell_to_a_pool_that_has_ended_costs_linear_work() {
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

    /// Its `stopped` hook never returns.
    struct Stuck;

    impl Actor for Stuck {
        type Msg = ();
        type Error = BoxError;

        async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
            Err("failed as told".into())
        }

        async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
            core::future::pending().await
        }
    }

    #[test]
    fn s14_a_group_with_stuck_hooks_restarts_with_linear_work() {
        grows_linearly("a group with stuck hooks", |children| {
            let sim = Dispatcher::seeded(1);
            let scope = scope(&sim);
            let group = scope.supervisor("group", OneForAll::new()).unwrap();
            let actors: Vec<_> = (0..children).map(|_| group.spawn_unnamed(Props::new(|| Stuck)).unwrap()).collect();
            sim.drain_ready();
            actors[0].tell(()).unwrap();
            sim.run_until_time(Instant::after_start(3 * crate::GRACE_DEFAULT));
            assert!(group.any().member.node().with_supervision(|guardian| guardian.regroup.is_none()), "all are up again");
        });
    }

    /// Sends as it starts, and awaits that.
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

    /// Starts this many children that send to it.
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
    fn s14_children_that_wait_for_room_in_a_restarting_parent_cost_linear_work() {
        grows_linearly("children that wait for their parent", |children| {
            let sim = Dispatcher::seeded(1);
            let scope = scope(&sim);
            let props = Props::new(move || Crowd(children)).mailbox(Mailbox::bounded(1));
            let parent = scope.actor("parent", props).unwrap();
            parent.cell().suspend();
            sim.drain_ready();
            parent.try_send_system(SystemMessage::Restart).unwrap();
            sim.drain_ready();
            assert_eq!(parent.counts().handled, 2 * children as u64, "each child of both incarnations has sent");
        });
    }

    /// Publishes what it is told.
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
    fn s14_an_actor_that_waits_for_room_in_many_mailboxes_costs_linear_work() {
        grows_linearly("waiting for room in many mailboxes", |subscribers| {
            let sim = Dispatcher::seeded(1);
            let (scope, topic) = (scope(&sim), Topic::<bool>::new());
            let small = |n| scope.actor(&format!("{n}"), failing().mailbox(Mailbox::bounded(1))).unwrap();
            let actors: Vec<_> = (0..subscribers).map(small).collect();
            for actor in &actors {
                drop(topic.subscribe(actor, SlowSubscriber::Wait));
                actor.cell().suspend();
                actor.tell(false).unwrap();
            }
            let published = topic.clone();
            let publisher = scope.actor("publisher", Props::new(move || Publishes(published.clone()))).unwrap();
            publisher.tell(false).unwrap();
            sim.drain_ready();
            assert_eq!(publisher.cell().edges().len(), subscribers);
            publisher.cancel(Cause::Cancelled);
            sim.drain_ready();
            assert!(publisher.exit().is_some() && publisher.cell().edges().is_empty());
        });
    }
}
