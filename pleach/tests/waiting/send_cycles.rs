//! W1 and W2: a send never waits forever for an actor that waits for the sender.

use crate::common::{Gate, Job, Log, TestActor, poll_once, quiet};
use crate::{lints, reported_cycles};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::routing::{SlowSubscriber, Topic};
use pleach::sim::{Sim, explore};

const SMALL: usize = 1;

fn small(log: &Log<String>) -> Props<TestActor> {
    TestActor::props(log).mailbox(Mailbox::bounded(SMALL))
}

/// A job that passes the gate, then sends a note to `to` and logs the result.
fn send_after(gate: &Gate, to: &ActorRef<Job>, note: u32, answers: &Log<Result<(), SendError<()>>>) -> Job {
    let (gate, to, answers) = (gate.clone(), to.clone(), answers.clone());
    Job::work(move |_| async move {
        gate.pass().await;
        answers.push(to.send(Job::Note(note)).await.map_err(SendError::without_message));
        Ok(())
    })
}

/// Takes the log and returns its notes.
fn notes(log: &Log<String>) -> Vec<String> {
    log.take().into_iter().filter(|entry| entry.parse::<u32>().is_ok()).collect()
}

/// An actor that forwards jobs to its only child.
struct Parent {
    log: Log<String>,
    child: Option<ActorRef<Job>>,
    children: Log<ActorRef<Job>>,
}

impl Actor for Parent {
    type Msg = Job;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let child = cx.spawn("child", TestActor::props(&self.log)).map_err(|_| "no child")?;
        self.children.push(child.clone());
        self.child = Some(child);
        Ok(())
    }

    async fn handle(&mut self, job: Job, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        match job {
            Job::Note(note) => self.log.note(note),
            Job::Pass(gate, _) => gate.pass().await,
            Job::Fail(why) => return Err(why.into()),
            job => drop(self.child.as_ref().map(|child| child.tell(job))),
        }
        Ok(())
    }
}

/// A parent with mailbox capacity one, and its first child.
fn parent(sim: &Sim, system: &ActorSystem, log: &Log<String>) -> (ActorRef<Job>, ActorRef<Job>) {
    let (log, children) = (log.clone(), Log::new());
    let spawned = children.clone();
    let props = Props::new(move || Parent { log: log.clone(), child: None, children: spawned.clone() });
    let parent = system.spawn("parent", props.mailbox(Mailbox::bounded(SMALL))).unwrap();
    sim.settle();
    (parent, children.take().remove(0))
}

#[test]
fn w1_restart_accepts_a_send_of_a_child_to_its_full_parent() {
    // The child waits before the restart begins, or starts to wait during it.
    for before in [true, false] {
        explore(0..50, |sim| {
            let system = sim.system("s");
            let mut lints = lints(&system);
            let (log, answers, gate, release) = (Log::new(), Log::new(), Gate::new(), Gate::new());
            let (parent, child) = parent(sim, &system, &log);
            child.tell(send_after(&gate, &parent, 2, &answers)).unwrap();
            parent.tell(Job::Pass(release.clone(), 0)).unwrap();
            sim.settle();
            parent.tell(Job::Note(1)).unwrap();
            if before {
                gate.open();
                sim.settle();
            }
            parent.try_send_system(SystemMessage::Restart).unwrap();
            release.open();
            sim.settle();
            gate.open();
            sim.settle();
            assert_eq!(answers.take(), [Ok(())]);
            assert_eq!(notes(&log), ["1", "2"], "the next incarnation handles both in order");
            assert_eq!(reported_cycles(&mut lints), [["/user/parent/child", "/user/parent"]]);
        });
    }
}

#[test]
fn w1_one_for_all_accepts_a_send_to_a_sibling_that_is_down() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let group = system.supervisor("group", OneForAll::new()).unwrap();
        let (log, answers, gate, release) = (Log::new(), Log::new(), Gate::new(), Gate::new());
        let [a, b] = ["a", "b"].map(|name| group.spawn(name, small(&log)).unwrap());
        let wait = release.clone();
        a.tell(Job::work(move |_| async move {
            wait.pass().await;
            Err("down".into())
        }))
        .unwrap();
        b.tell(send_after(&gate, &a, 2, &answers)).unwrap();
        sim.settle();
        a.tell(Job::Note(1)).unwrap();
        gate.open();
        sim.settle();
        release.open();
        sim.settle();
        assert_eq!(answers.take(), [Ok(())]);
        assert_eq!(notes(&log), ["1", "2"]);
    });
}

#[test]
fn w1_publish_to_a_group_member_that_is_down_is_accepted() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let group = system.supervisor("group", RestForOne::new()).unwrap();
        let (log, release, gate) = (Log::new(), Gate::new(), Gate::new());
        let [a, b] = ["a", "b"].map(|name| group.spawn(name, small(&log)).unwrap());
        let topic = Topic::<u32>::new();
        topic.subscribe_with(&a, SlowSubscriber::Wait, Job::Note);
        let (a_waits, b_waits, published, reports) = (release.clone(), gate.clone(), topic.clone(), Log::new());
        let seen = reports.clone();
        a.tell(Job::work(move |_| async move {
            a_waits.pass().await;
            Err("down".into())
        }))
        .unwrap();
        b.tell(Job::work(move |_| async move {
            b_waits.pass().await;
            seen.push(published.publish(2).await.delivered);
            Ok(())
        }))
        .unwrap();
        sim.settle();
        a.tell(Job::Note(1)).unwrap();
        release.open();
        gate.open();
        sim.settle();
        assert_eq!(reports.take(), [1]);
        assert_eq!(notes(&log), ["1", "2"]);
    });
}

/// Two actors with mailbox capacity one publish to each other and await it.
#[test]
fn w2_two_actors_that_publish_to_each_other_never_block() {
    let mut reported = 0;
    for seed in 0..200 {
        let sim = Sim::new(seed);
        let system = sim.system("s");
        let mut lints = lints(&system);
        let log = Log::new();
        let [a, b] = ["a", "b"].map(|name| system.spawn(name, small(&log)).unwrap());
        let topics = [Topic::<u32>::new(), Topic::new()];
        topics[0].subscribe_with(&b, SlowSubscriber::Wait, Job::Note);
        topics[1].subscribe_with(&a, SlowSubscriber::Wait, Job::Note);
        for (actor, topic) in [(&a, &topics[0]), (&b, &topics[1])] {
            let topic = topic.clone();
            let publish = Job::work(move |_| async move {
                for note in 0..3 {
                    assert_eq!(topic.publish(note).await.delivered, 1);
                }
                Ok(())
            });
            actor.tell(publish).unwrap();
        }
        sim.settle();
        assert_eq!(system.counts().handled, 8, "seed {seed}");
        for cycle in reported_cycles(&mut lints) {
            reported += 1;
            assert_eq!(cycle.len(), 2, "{cycle:?}");
        }
    }
    assert!(reported > 0, "some schedule reports a cycle");
}

#[test]
fn w2_ask_accepts_the_send_that_closes_its_cycle() {
    // The later of the two finds the cycle.
    for ask_first in [true, false] {
        explore(0..50, |sim| {
            let system = sim.system("s");
            let (log, answers, gates) = (Log::new(), Log::new(), [Gate::new(), Gate::new()]);
            let [a, b] = ["a", "b"].map(|name| system.spawn(name, small(&log)).unwrap());
            let (ask, asked, answered) = (gates[0].clone(), b.clone(), answers.clone());
            a.tell(Job::work(move |_| async move {
                ask.pass().await;
                answered.push(asked.ask(|reply| Job::Answer(reply, 7)).await.is_ok());
                Ok(())
            }))
            .unwrap();
            let sent = Log::new();
            b.tell(send_after(&gates[1], &a, 2, &sent)).unwrap();
            sim.settle();
            a.tell(Job::Note(1)).unwrap();
            let order = if ask_first { [0, 1] } else { [1, 0] };
            for at in order {
                gates[at].open();
                sim.settle();
            }
            assert_eq!((answers.take(), sent.take()), (vec![true], vec![Ok(())]));
            assert_eq!(system.counts().handled, 5);
        });
    }
}

#[test]
fn w2_send_to_itself_is_accepted() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let mut lints = lints(&system);
    let log = Log::new();
    let a = system.spawn("a", small(&log)).unwrap();
    a.tell(Job::work(|me| async move {
        for note in 0..3 {
            me.send(Job::Note(note)).await.map_err(SendError::without_message)?;
        }
        me.map(Job::Note).send(3).await?;
        Ok(())
    }))
    .unwrap();
    sim.settle();
    assert_eq!(a.counts().handled, 5);
    assert_eq!(reported_cycles(&mut lints), [["/user/a"], ["/user/a"], ["/user/a"]]);
}

/// Sends of one sender keep their order, and senders outside of the cycle keep waiting.
#[test]
fn w2_cycle_accepts_only_its_own_sends_and_in_order() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let (log, gate) = (Log::new(), Gate::new());
        let a = system.spawn("a", small(&log)).unwrap();
        let wait = gate.clone();
        a.tell(Job::work(move |me| async move {
            wait.pass().await;
            let sent = futures::join!(me.send(Job::Note(2)), me.send(Job::Note(3)));
            assert!(sent.0.is_ok() && sent.1.is_ok());
            wait.pass().await;
            Ok(())
        }))
        .unwrap();
        sim.settle();
        a.tell(Job::Note(1)).unwrap();
        let mut outside = a.send(Job::Note(4));
        assert!(poll_once(&mut outside).is_pending());
        gate.open();
        sim.settle();
        assert_eq!(a.queued(), SMALL + 2, "one message per send of the cycle");
        assert!(poll_once(&mut outside).is_pending());
        gate.open();
        sim.settle();
        assert!(poll_once(&mut outside).is_ready());
        sim.settle();
        assert_eq!(notes(&log), ["1", "2", "3", "4"]);
    });
}

/// An ask that waits for room and closes a cycle ends with an error. Its message is withdrawn.
#[test]
fn w1_ask_without_room_in_a_restarting_parent_is_a_cycle() {
    quiet();
    explore(0..50, |sim| {
        let system = sim.system("s");
        let (log, errors, release) = (Log::new(), Log::new(), Gate::new());
        let (parent, child) = parent(sim, &system, &log);
        parent.tell(Job::Pass(release.clone(), 0)).unwrap();
        sim.settle();
        parent.tell(Job::Note(1)).unwrap();
        let (asked, seen) = (parent.clone(), errors.clone());
        child
            .tell(Job::work(move |_| async move {
                seen.push(asked.ask(|reply| Job::Answer(reply, 1)).await);
                Ok(())
            }))
            .unwrap();
        sim.settle();
        parent.try_send_system(SystemMessage::Restart).unwrap();
        release.open();
        sim.settle();
        assert!(matches!(&errors.take()[..], [Err(AskError::Cycle(paths))] if paths.len() == 2));
        assert_eq!(parent.counts().accepted, 2, "the ask was not accepted");
    });
}

/// A child waits in `started` for a sibling that restarts after it.
#[test]
fn w1_started_hook_may_send_to_a_child_that_starts_later() {
    struct WaitsAtStart(ActorRef<Job>, bool);

    impl Actor for WaitsAtStart {
        type Msg = ();
        type Error = BoxError;

        async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
            if cx.incarnation() > 0 {
                if self.1 {
                    let answer = self.0.ask(|reply| Job::Answer(reply, 1)).await;
                    assert!(matches!(answer, Err(AskError::Cycle(_))), "{answer:?}");
                } else {
                    self.0.send(Job::Note(2)).await.map_err(SendError::without_message)?;
                }
            }
            Ok(())
        }

        async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    for asks in [false, true] {
        explore(0..50, |sim| {
            let system = sim.system("s");
            let (log, release) = (Log::new(), Gate::new());
            let group = system.supervisor("group", OneForAll::new()).unwrap();
            let later: Log<ActorRef<Job>> = Log::new();
            let siblings = later.clone();
            let spare = system.spawn("spare", small(&log)).unwrap();
            let props = Props::new(move || WaitsAtStart(siblings.seen().pop().unwrap_or_else(|| spare.clone()), asks));
            let first = group.spawn("first", props).unwrap();
            let second = group.spawn("second", small(&log)).unwrap();
            later.push(second.clone());
            second.tell(Job::Pass(release.clone(), 0)).unwrap();
            sim.settle();
            second.tell(Job::Note(1)).unwrap();
            // A failing child restarts the whole group.
            let fails = group.spawn("fails", TestActor::props(&log)).unwrap();
            fails.tell(Job::Fail("down")).unwrap();
            release.open();
            sim.settle();
            assert!(first.exit().is_none() && second.exit().is_none());
            assert_eq!(second.queued(), 0, "all have restarted");
        });
    }
}
