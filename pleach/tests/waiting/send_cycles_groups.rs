//! W2: an actor awaits a group, a scope or a task, which waits for room in that actor's mailbox.

use crate::common::{Job, Log, TestActor};
use crate::{lints, reported_cycles};
use pleach::events::EventSubscription;
use pleach::prelude::*;
use pleach::routing::{SlowSubscriber, Topic};
use pleach::sim::{Sim, explore};
use std::sync::Arc;

const SENDS: u32 = 3;

/// A system with an actor of mailbox capacity one.
struct Fixture {
    system: ActorSystem,
    actor: ActorRef<Job>,
    log: Log<String>,
    lints: EventSubscription,
}

impl Fixture {
    fn new(sim: &Sim) -> Self {
        let system = sim.system("s");
        let log = Log::new();
        let actor = system.spawn("a", TestActor::props(&log).mailbox(Mailbox::bounded(1))).unwrap();
        let lints = lints(&system);
        Self { system, actor, log, lints }
    }

    /// Runs `work` in a handler. Checks that it completes and that all notes are handled.
    fn check<F>(&mut self, sim: &Sim, notes: u32, work: impl FnOnce(Log<String>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let work = work(self.log.clone());
        self.actor
            .tell(Job::work(move |_| async move {
                work.await;
                Ok(())
            }))
            .unwrap();
        sim.settle();
        let seen: Vec<String> =
            self.log.take().into_iter().filter(|entry| entry == "done" || entry.parse::<u32>().is_ok()).collect();
        assert_eq!(seen.first().map(String::as_str), Some("done"), "the handler did not complete: {seen:?}");
        assert_eq!(seen.len() as u32, 1 + notes);
        assert!(self.system.counts().is_settled(), "{}", self.system.counts());
    }

    fn cycles(&mut self) -> Vec<Vec<String>> {
        reported_cycles(&mut self.lints)
    }
}

/// Sends notes to `to` and awaits each.
async fn send_notes(to: ActorRef<Job>) {
    for note in 0..SENDS {
        to.send(Job::Note(note)).await.unwrap();
    }
}

/// How a handler awaits its group.
#[derive(Clone, Copy, Debug)]
enum How {
    Wait,
    Next,
    Stream,
    Drain,
    Slot,
    Exited,
}

const ALL: [How; 6] = [How::Wait, How::Next, How::Stream, How::Drain, How::Slot, How::Exited];

async fn await_group(mut group: Group<()>, how: How) {
    match how {
        How::Wait => group.wait().await.unwrap(),
        How::Next => group.next().await.unwrap().unwrap(),
        How::Stream => futures::StreamExt::next(&mut group).await.unwrap().unwrap(),
        How::Drain => assert!(group.drain().await.errors.is_empty()),
        How::Slot => group.go(async {}).await.unwrap(),
        How::Exited => {
            group.close();
            group.any_ref().exited().await;
        }
    }
}

#[test]
fn w2_task_of_a_group_may_send_to_the_actor_that_awaits_it() {
    for how in ALL {
        explore(0..50, |sim| {
            let mut fixture = Fixture::new(sim);
            let (me, group) = (fixture.actor.clone(), fixture.system.group("g").limit(1).build().unwrap());
            fixture.check(sim, SENDS, |log| async move {
                group.go(send_notes(me)).await.unwrap();
                await_group(group, how).await;
                log.note("done");
            });
            let cycles = fixture.cycles();
            assert!(!cycles.is_empty(), "{how:?}");
            for cycle in cycles {
                assert!(cycle.iter().any(|path| path == "/user/g") && cycle.iter().any(|path| path == "/user/a"), "{cycle:?}");
            }
        });
    }
}

#[test]
fn w2_task_may_wait_for_room_before_its_group_is_awaited() {
    for how in ALL {
        explore(0..50, |sim| {
            let mut fixture = Fixture::new(sim);
            let (me, group) = (fixture.actor.clone(), fixture.system.group("g").limit(1).build().unwrap());
            fixture.check(sim, SENDS, |log| async move {
                group.go(send_notes(me)).await.unwrap();
                for _ in 0..50 {
                    tokio::task::yield_now().await;
                }
                await_group(group, how).await;
                log.note("done");
            });
        });
    }
}

#[test]
fn w2_many_tasks_of_a_group_are_all_accepted() {
    explore(0..20, |sim| {
        let mut fixture = Fixture::new(sim);
        let (me, group) = (fixture.actor.clone(), fixture.system.group("g").build().unwrap());
        fixture.check(sim, 40 * SENDS, |log| async move {
            for _ in 0..40 {
                group.try_go(send_notes(me.clone())).unwrap();
            }
            group.wait().await.unwrap();
            log.note("done");
        });
    });
}

#[test]
fn w2_task_of_a_group_may_publish_to_the_actor_that_awaits_it() {
    explore(0..50, |sim| {
        let mut fixture = Fixture::new(sim);
        let topic = Topic::new();
        topic.subscribe_with(&fixture.actor, SlowSubscriber::Wait, Job::Note);
        let group = fixture.system.group("g").build().unwrap();
        fixture.check(sim, SENDS, |log| async move {
            let publishing = async move {
                for note in 0..SENDS {
                    topic.publish(note).await;
                }
            };
            group.try_go(publishing).unwrap();
            group.wait().await.unwrap();
            log.note("done");
        });
    });
}

#[test]
fn w2_task_of_a_group_may_ask_an_actor_that_sends_back() {
    explore(0..50, |sim| {
        let mut fixture = Fixture::new(sim);
        let other = fixture.system.spawn("b", TestActor::props(&Log::new())).unwrap();
        let (me, group) = (fixture.actor.clone(), fixture.system.group("g").build().unwrap());
        fixture.check(sim, SENDS, |log| async move {
            let asking = async move {
                let sending = Job::work(move |_| async move {
                    send_notes(me).await;
                    Ok(())
                });
                other.tell(sending).unwrap();
                // The ask waits behind the send.
                assert_eq!(other.ask(|reply| Job::Answer(reply, 7)).await.ok(), Some(7));
            };
            group.try_go(asking).unwrap();
            group.wait().await.unwrap();
            log.note("done");
        });
    });
}

/// What a handler awaits.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    WaitAll,
    TaskExit,
    ScopeExit,
}

#[test]
fn w2_task_of_a_scope_may_send_to_the_actor_that_awaits_it() {
    for awaited in [Awaited::WaitAll, Awaited::TaskExit, Awaited::ScopeExit] {
        for yields in [false, true] {
            explore(0..50, |sim| {
                let mut fixture = Fixture::new(sim);
                let me = fixture.actor.clone();
                let scope = Arc::new(fixture.system.scope("work").unwrap());
                let inner = Arc::new(scope.scope("inner").unwrap());
                let kept = (Arc::clone(&scope), Arc::clone(&inner));
                fixture.check(sim, SENDS, |log| async move {
                    let task = inner.launch(send_notes(me)).unwrap();
                    if yields {
                        for _ in 0..50 {
                            tokio::task::yield_now().await;
                        }
                    }
                    match awaited {
                        Awaited::WaitAll => inner.wait_all().await.unwrap(),
                        Awaited::TaskExit => drop(task.exited().await),
                        Awaited::ScopeExit => {
                            scope.close();
                            scope.exited().await;
                        }
                    }
                    log.note("done");
                });
                assert!(!fixture.cycles().is_empty(), "{awaited:?}");
                drop(kept);
            });
        }
    }
}

#[test]
fn w2_actor_may_await_the_exit_of_an_actor_that_sends_to_it() {
    explore(0..50, |sim| {
        let mut fixture = Fixture::new(sim);
        let me = fixture.actor.clone();
        let other = fixture.system.spawn("b", TestActor::props(&Log::new())).unwrap();
        fixture.check(sim, SENDS, |log| async move {
            let sending = Job::work(move |_| async move {
                send_notes(me).await;
                Ok(())
            });
            other.tell(sending).unwrap();
            other.close();
            other.exited().await;
            log.note("done");
        });
        assert_eq!(fixture.cycles().first(), Some(&vec!["/user/b".to_string(), "/user/a".to_string()]));
    });
}

#[test]
fn w2_send_of_a_group_that_is_not_awaited_respects_capacity() {
    explore(0..50, |sim| {
        let mut fixture = Fixture::new(sim);
        let (me, group) = (fixture.actor.clone(), fixture.system.group("g").build().unwrap());
        let gate = crate::common::Gate::new();
        fixture.actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
        sim.settle();
        (0..5).for_each(|_| group.try_go(send_notes(me.clone())).unwrap());
        sim.settle();
        assert_eq!(fixture.actor.queued(), 1);
        gate.open();
        sim.settle();
        assert!(fixture.cycles().is_empty() && fixture.system.counts().is_settled());
        assert_eq!(sim.run(group.wait()), Ok(()));
    });
}
