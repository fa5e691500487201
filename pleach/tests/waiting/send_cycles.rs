//! W1, W2: a send that an actor awaits never waits for good for somebody who waits for that actor.

use crate::common::{Doer, Gate, Job, Log, poll_once, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, EventSubscription, Lint, SlowSubscriber, SubscriptionOptions, Topic};

const SMALL: usize = 1;

fn small(log: &Log<String>) -> Props<Doer> {
    Doer::props(log).mailbox(Mailbox::bounded(SMALL))
}

/// Passes the gate, then sends a note to `to` and awaits that.
fn send_after(gate: &Gate, to: &ActorRef<Job>, note: u32, answers: &Log<Result<(), SendError<()>>>) -> Job {
    let (gate, to, answers) = (gate.clone(), to.clone(), answers.clone());
    Job::work(move |_| async move {
        gate.pass().await;
        answers.push(to.send(Job::Note(note)).await.map_err(SendError::without_message));
        Ok(())
    })
}

fn lints(system: &ActorSystem) -> EventSubscription {
    system.hub().subscribe_with(SubscriptionOptions::new().kinds(EventKinds::LINTS))
}

/// The circles of sends that were told of.
fn circles(lints: &mut EventSubscription) -> Vec<Vec<String>> {
    let told = std::iter::from_fn(|| lints.try_next());
    let circle = |event| match event {
        Event::Lint(Lint::SendCycle(paths)) => Some(paths.iter().map(ToString::to_string).collect()),
        _ => None,
    };
    told.filter_map(circle).collect()
}

/// An actor with one child, to which it hands on each job.
struct Parent {
    log: Log<String>,
    child: Option<ActorRef<Job>>,
    children: Log<ActorRef<Job>>,
}

impl Actor for Parent {
    type Msg = Job;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let child = cx.spawn("child", Doer::props(&self.log)).map_err(|_| "no child")?;
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

/// A parent with a mailbox for one message, and its first child.
fn parent(sim: &Sim, system: &ActorSystem, log: &Log<String>) -> (ActorRef<Job>, ActorRef<Job>) {
    let (log, children) = (log.clone(), Log::new());
    let born = children.clone();
    let props = Props::new(move || Parent { log: log.clone(), child: None, children: born.clone() });
    let parent = system.spawn("parent", props.mailbox(Mailbox::bounded(SMALL))).unwrap();
    sim.settle();
    (parent, children.take().remove(0))
}

#[test]
fn w1_restart_admits_a_send_of_a_child_to_its_full_parent() {
    // Whether the child waits before the restart begins, or begins to wait during it.
    for before in [true, false] {
        explore(0..50, |sim| {
            let system = sim.system("s");
            let mut lints = lints(&system);
            let (log, answers, gate, hold) = (Log::new(), Log::new(), Gate::new(), Gate::new());
            let (parent, child) = parent(sim, &system, &log);
            child.tell(send_after(&gate, &parent, 2, &answers)).unwrap();
            parent.tell(Job::Pass(hold.clone(), 0)).unwrap();
            sim.settle();
            parent.tell(Job::Note(1)).unwrap();
            if before {
                gate.open();
                sim.settle();
            }
            parent.try_send_system(SystemMessage::Restart).unwrap();
            hold.open();
            sim.settle();
            gate.open();
            sim.settle();
            assert_eq!(answers.take(), [Ok(())]);
            let notes: Vec<String> = log.take().into_iter().filter(|entry| entry.parse::<u32>().is_ok()).collect();
            assert_eq!(notes, ["1", "2"], "the next incarnation handles both, in order");
            assert_eq!(circles(&mut lints), [["/user/parent/child", "/user/parent"]]);
        });
    }
}

#[test]
fn w1_one_for_all_admits_a_send_to_a_sibling_that_is_down() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let group = system.supervisor("group", OneForAll::new()).unwrap();
        let (log, answers, gate, hold) = (Log::new(), Log::new(), Gate::new(), Gate::new());
        let [a, b] = ["a", "b"].map(|name| group.spawn(name, small(&log)).unwrap());
        let held = hold.clone();
        a.tell(Job::work(move |_| async move {
            held.pass().await;
            Err("down".into())
        }))
        .unwrap();
        b.tell(send_after(&gate, &a, 2, &answers)).unwrap();
        sim.settle();
        a.tell(Job::Note(1)).unwrap();
        gate.open();
        sim.settle();
        hold.open();
        sim.settle();
        assert_eq!(answers.take(), [Ok(())]);
        let notes: Vec<String> = log.take().into_iter().filter(|entry| entry.parse::<u32>().is_ok()).collect();
        assert_eq!(notes, ["1", "2"]);
    });
}

#[test]
fn w1_publish_to_a_group_member_that_is_down_is_admitted() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let group = system.supervisor("group", RestForOne::new()).unwrap();
        let (log, hold, gate) = (Log::new(), Gate::new(), Gate::new());
        let [a, b] = ["a", "b"].map(|name| group.spawn(name, small(&log)).unwrap());
        let topic = Topic::<u32>::new();
        topic.subscribe_with(&a, SlowSubscriber::Wait, Job::Note);
        let (held, passed, published, reports) = (hold.clone(), gate.clone(), topic.clone(), Log::new());
        let seen = reports.clone();
        a.tell(Job::work(move |_| async move {
            held.pass().await;
            Err("down".into())
        }))
        .unwrap();
        b.tell(Job::work(move |_| async move {
            passed.pass().await;
            seen.push(published.publish(2).await.delivered);
            Ok(())
        }))
        .unwrap();
        sim.settle();
        a.tell(Job::Note(1)).unwrap();
        hold.open();
        gate.open();
        sim.settle();
        assert_eq!(reports.take(), [1]);
        let notes: Vec<String> = log.take().into_iter().filter(|entry| entry.parse::<u32>().is_ok()).collect();
        assert_eq!(notes, ["1", "2"]);
    });
}

/// In one system A and B send to each other a few times, each with room for one message, and await it.
#[test]
fn w2_two_actors_that_publish_to_each_other_never_stand_still() {
    let mut told = 0;
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
        for circle in circles(&mut lints) {
            told += 1;
            assert_eq!(circle.len(), 2, "{circle:?}");
        }
    }
    assert!(told > 0, "the lint names a circle in some schedule");
}

#[test]
fn w2_an_ask_admits_the_send_that_closes_its_circle() {
    // Whoever comes last finds the circle: the ask, or the send.
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
fn w2_a_send_to_oneself_is_admitted() {
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
    assert_eq!(circles(&mut lints), [["/user/a"], ["/user/a"], ["/user/a"]]);
}

/// Several sends of one sender to one mailbox keep their order, and senders outside of the circle go on waiting.
#[test]
fn w2_a_circle_admits_its_own_sends_in_order_and_nobody_else() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let (log, gate) = (Log::new(), Gate::new());
        let a = system.spawn("a", small(&log)).unwrap();
        let passed = gate.clone();
        a.tell(Job::work(move |me| async move {
            passed.pass().await;
            let sent = futures::join!(me.send(Job::Note(2)), me.send(Job::Note(3)));
            assert!(sent.0.is_ok() && sent.1.is_ok());
            passed.pass().await;
            Ok(())
        }))
        .unwrap();
        sim.settle();
        a.tell(Job::Note(1)).unwrap();
        let mut outside = a.send(Job::Note(4));
        assert!(poll_once(&mut outside).is_pending());
        gate.open();
        sim.settle();
        assert_eq!(a.queued(), SMALL + 2, "one message for each send of the circle");
        assert!(poll_once(&mut outside).is_pending());
        gate.open();
        sim.settle();
        assert!(poll_once(&mut outside).is_ready());
        sim.settle();
        let notes: Vec<String> = log.take().into_iter().filter(|entry| entry.parse::<u32>().is_ok()).collect();
        assert_eq!(notes, ["1", "2", "3", "4"]);
    });
}

/// An ask that still waits for room learns that it closes a circle, and its question is taken back.
#[test]
fn w1_an_ask_without_room_in_its_restarting_parent_gets_cycle() {
    quiet();
    explore(0..50, |sim| {
        let system = sim.system("s");
        let (log, errors, hold) = (Log::new(), Log::new(), Gate::new());
        let (parent, child) = parent(sim, &system, &log);
        parent.tell(Job::Pass(hold.clone(), 0)).unwrap();
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
        hold.open();
        sim.settle();
        assert!(matches!(&errors.take()[..], [Err(AskError::Cycle(paths))] if paths.len() == 2));
        assert_eq!(parent.counts().accepted, 2, "the question was not accepted");
    });
}

/// A member that starts again with its group, and waits as it starts for one that starts after it.
#[test]
fn w1_a_started_hook_may_send_to_a_member_that_starts_later() {
    struct Starts(ActorRef<Job>, bool);

    impl Actor for Starts {
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
            let (log, hold) = (Log::new(), Gate::new());
            let group = system.supervisor("group", OneForAll::new()).unwrap();
            let later: Log<ActorRef<Job>> = Log::new();
            let known = later.clone();
            let spare = system.spawn("spare", small(&log)).unwrap();
            let props = Props::new(move || Starts(known.seen().pop().unwrap_or_else(|| spare.clone()), asks));
            let first = group.spawn("first", props).unwrap();
            let second = group.spawn("second", small(&log)).unwrap();
            later.push(second.clone());
            second.tell(Job::Pass(hold.clone(), 0)).unwrap();
            sim.settle();
            second.tell(Job::Note(1)).unwrap();
            // The whole group restarts because a member fails.
            let fails = group.spawn("fails", Doer::props(&log)).unwrap();
            fails.tell(Job::Fail("down")).unwrap();
            hold.open();
            sim.settle();
            assert!(first.exit().is_none() && second.exit().is_none());
            assert_eq!(second.queued(), 0, "all are up again");
        });
    }
}
