//! W2: an actor that awaits a group, a scope or a task in its handler, while what it awaits waits for room in that actor's mailbox.

use crate::common::{Doer, Job, Log};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{EventSubscription, Lint, SlowSubscriber, SubscriptionOptions, Topic};
use std::sync::Arc;

const SENDS: u32 = 3;

/// The system of one test, and an actor in it with room for one message.
struct Stage {
    system: ActorSystem,
    actor: ActorRef<Job>,
    log: Log<String>,
    lints: EventSubscription,
}

impl Stage {
    fn new(sim: &Sim) -> Self {
        let system = sim.system("s");
        let log = Log::new();
        let actor = system.spawn("a", Doer::props(&log).mailbox(Mailbox::bounded(1))).unwrap();
        let lints = system.hub().subscribe_with(SubscriptionOptions::new().kinds(EventKinds::LINTS));
        Self { system, actor, log, lints }
    }

    /// Has the actor do this, and looks whether it came to its end and all notes were handled.
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
        assert_eq!(seen.first().map(String::as_str), Some("done"), "the handler stands still: {seen:?}");
        assert_eq!(seen.len() as u32, 1 + notes);
        assert!(self.system.counts().is_settled(), "{}", self.system.counts());
    }

    /// The circles of sends that were told of.
    fn circles(&mut self) -> Vec<Vec<String>> {
        let told = std::iter::from_fn(|| self.lints.try_next());
        let circle = |event| match event {
            Event::Lint(Lint::SendCycle(paths)) => Some(paths.iter().map(ToString::to_string).collect()),
            _ => None,
        };
        told.filter_map(circle).collect()
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
fn w2_task_of_a_group_sends_to_the_actor_that_awaits_the_group() {
    for how in ALL {
        explore(0..50, |sim| {
            let mut stage = Stage::new(sim);
            let (me, group) = (stage.actor.clone(), stage.system.group("g").limit(1).build().unwrap());
            stage.check(sim, SENDS, |log| async move {
                group.go(send_notes(me)).await.unwrap();
                await_group(group, how).await;
                log.note("done");
            });
            let circles = stage.circles();
            assert!(!circles.is_empty(), "{how:?}");
            for circle in circles {
                assert!(
                    circle.iter().any(|path| path == "/user/g") && circle.iter().any(|path| path == "/user/a"),
                    "{circle:?}"
                );
            }
        });
    }
}

#[test]
fn w2_task_that_waits_for_room_before_the_handler_awaits_its_group() {
    for how in ALL {
        explore(0..50, |sim| {
            let mut stage = Stage::new(sim);
            let (me, group) = (stage.actor.clone(), stage.system.group("g").limit(1).build().unwrap());
            stage.check(sim, SENDS, |log| async move {
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
fn w2_many_tasks_of_a_group_are_all_admitted() {
    explore(0..20, |sim| {
        let mut stage = Stage::new(sim);
        let (me, group) = (stage.actor.clone(), stage.system.group("g").build().unwrap());
        stage.check(sim, 40 * SENDS, |log| async move {
            for _ in 0..40 {
                group.try_go(send_notes(me.clone())).unwrap();
            }
            group.wait().await.unwrap();
            log.note("done");
        });
    });
}

#[test]
fn w2_task_of_a_group_publishes_to_the_actor_that_awaits_the_group() {
    explore(0..50, |sim| {
        let mut stage = Stage::new(sim);
        let topic = Topic::new();
        topic.subscribe_with(&stage.actor, SlowSubscriber::Wait, Job::Note);
        let group = stage.system.group("g").build().unwrap();
        stage.check(sim, SENDS, |log| async move {
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
fn w2_task_of_a_group_asks_one_that_sends_to_the_actor() {
    explore(0..50, |sim| {
        let mut stage = Stage::new(sim);
        let other = stage.system.spawn("b", Doer::props(&Log::new())).unwrap();
        let (me, group) = (stage.actor.clone(), stage.system.group("g").build().unwrap());
        stage.check(sim, SENDS, |log| async move {
            let asking = async move {
                let sending = Job::work(move |_| async move {
                    send_notes(me).await;
                    Ok(())
                });
                other.tell(sending).unwrap();
                // The ask waits behind that.
                assert_eq!(other.ask(|reply| Job::Answer(reply, 7)).await.ok(), Some(7));
            };
            group.try_go(asking).unwrap();
            group.wait().await.unwrap();
            log.note("done");
        });
    });
}

/// What a handler awaits of a scope or its task.
#[derive(Clone, Copy, Debug)]
enum Of {
    WaitAll,
    TaskExit,
    ScopeExit,
}

#[test]
fn w2_task_of_a_scope_sends_to_the_actor_that_awaits_it() {
    for of in [Of::WaitAll, Of::TaskExit, Of::ScopeExit] {
        for begun in [false, true] {
            explore(0..50, |sim| {
                let mut stage = Stage::new(sim);
                let me = stage.actor.clone();
                let scope = Arc::new(stage.system.scope("work").unwrap());
                let inner = Arc::new(scope.scope("inner").unwrap());
                let kept = (Arc::clone(&scope), Arc::clone(&inner));
                stage.check(sim, SENDS, |log| async move {
                    let task = inner.launch(send_notes(me)).unwrap();
                    if begun {
                        for _ in 0..50 {
                            tokio::task::yield_now().await;
                        }
                    }
                    match of {
                        Of::WaitAll => inner.wait_all().await.unwrap(),
                        Of::TaskExit => drop(task.exited().await),
                        Of::ScopeExit => {
                            scope.close();
                            scope.exited().await;
                        }
                    }
                    log.note("done");
                });
                assert!(!stage.circles().is_empty(), "{of:?}");
                drop(kept);
            });
        }
    }
}

#[test]
fn w2_actor_awaits_the_exit_of_one_whose_handler_sends_to_it() {
    explore(0..50, |sim| {
        let mut stage = Stage::new(sim);
        let me = stage.actor.clone();
        let other = stage.system.spawn("b", Doer::props(&Log::new())).unwrap();
        stage.check(sim, SENDS, |log| async move {
            let sending = Job::work(move |_| async move {
                send_notes(me).await;
                Ok(())
            });
            other.tell(sending).unwrap();
            other.close();
            other.exited().await;
            log.note("done");
        });
        assert_eq!(stage.circles().first(), Some(&vec!["/user/b".to_string(), "/user/a".to_string()]));
    });
}

#[test]
fn w2_send_of_a_group_that_nobody_awaits_keeps_to_the_capacity() {
    explore(0..50, |sim| {
        let mut stage = Stage::new(sim);
        let (me, group) = (stage.actor.clone(), stage.system.group("g").build().unwrap());
        let gate = crate::common::Gate::new();
        stage.actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
        sim.settle();
        (0..5).for_each(|_| group.try_go(send_notes(me.clone())).unwrap());
        sim.settle();
        assert_eq!(stage.actor.queued(), 1);
        gate.open();
        sim.settle();
        assert!(stage.circles().is_empty() && stage.system.counts().is_settled());
        assert_eq!(sim.run(group.wait()), Ok(()));
    });
}
