//! A search for waits that never end. Random trees of actors with small mailboxes send, ask and publish to each other and await it, while
//! their supervisors restart and stop them. When the simulator has nothing left to run, nobody waits, and the counts balance.

mod common;

use common::quiet;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, ExponentialBackoff, Random, Runtime, SlowSubscriber, Topic};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// What a handler does, one after the other.
type Steps = Arc<Vec<Step>>;

/// One thing that a handler does and awaits. Numbers are peers.
#[derive(Clone, Debug)]
enum Step {
    Send(usize, Steps),
    SendAdapted(usize, Steps),
    SendTwice(usize, Steps),
    Ask(usize, Steps),
    AskAdapted(usize, Steps),
    Publish(Steps),
    Sleep(u64),
    Fail,
    Panic,
    Stop,
}

struct Letter {
    steps: Steps,
    reply: Option<Reply<()>>,
}

impl From<Steps> for Letter {
    fn from(steps: Steps) -> Self {
        Self { steps, reply: None }
    }
}

/// What all peers of one world share.
struct Net {
    runtime: Arc<dyn Runtime>,
    peers: Mutex<Vec<ActorRef<Letter>>>,
    topic: Topic<Steps>,
    waits: Mutex<BTreeMap<usize, String>>,
    last_wait: AtomicUsize,
}

/// How many steps all peers of a world take: failures and the first steps of whoever starts again could feed each other for ever.
const STEPS_MAX: usize = 300;

impl Net {
    fn peer(&self, number: usize) -> Option<ActorRef<Letter>> {
        let peers = self.peers.lock().unwrap();
        peers.get(number % peers.len().max(1)).cloned()
    }

    /// Notes who waits for what, until the answer is dropped.
    fn wait(self: &Arc<Self>, who: &ActorPath, step: &Step) -> Noted {
        let key = self.last_wait.fetch_add(1, Relaxed);
        let whom = match step {
            Step::Send(to, _)
            | Step::SendAdapted(to, _)
            | Step::SendTwice(to, _)
            | Step::Ask(to, _)
            | Step::AskAdapted(to, _) => self.peer(*to).map(|peer| peer.path()),
            _ => None,
        };
        let text = format!("{step:?}").chars().take(40).collect::<String>();
        self.waits.lock().unwrap().insert(key, format!("{who}: {text} to {whom:?}"));
        Noted(Arc::clone(self), key)
    }
}

struct Noted(Arc<Net>, usize);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.waits.lock().unwrap().remove(&self.1);
    }
}

/// How one peer is made, and those below it.
#[derive(Clone)]
struct Plan {
    name: String,
    capacity: usize,
    prioritised: bool,
    listens: bool,
    first: Steps,
    below: Vec<Plan>,
    kind: usize,
}

struct Peer {
    net: Arc<Net>,
    plan: Plan,
}

impl Actor for Peer {
    type Msg = Letter;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        for plan in &self.plan.below {
            let child = cx.spawn(&plan.name, props(&self.net, plan)).map_err(|_| "no child")?;
            self.net.peers.lock().unwrap().push(child);
        }
        if self.plan.listens {
            self.net.topic.subscribe_with(&cx.me(), SlowSubscriber::Wait, Letter::from);
        }
        let steps = Arc::clone(&self.plan.first);
        self.walk(&steps, cx).await
    }

    async fn handle(&mut self, letter: Letter, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.walk(&letter.steps, cx).await?;
        if let Some(reply) = letter.reply {
            reply.send(());
        }
        Ok(())
    }
}

impl Peer {
    async fn walk(&mut self, steps: &Steps, cx: &mut Context<Self>) -> Result<(), BoxError> {
        for step in steps.iter() {
            if self.net.last_wait.load(Relaxed) > STEPS_MAX {
                return Ok(());
            }
            let noted = self.net.wait(&cx.path(), step);
            self.take(step, cx).await?;
            drop(noted);
        }
        Ok(())
    }

    /// Refusals are as good as any other answer here: what counts is that one comes.
    async fn take(&self, step: &Step, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let question = |steps: &Steps| {
            let steps = Arc::clone(steps);
            move |reply| Letter { steps, reply: Some(reply) }
        };
        match step {
            Step::Send(to, steps) => {
                let Some(to) = self.net.peer(*to) else { return Ok(()) };
                drop(to.send(Arc::clone(steps).into()).await);
            }
            Step::SendAdapted(to, steps) => {
                let Some(to) = self.net.peer(*to) else { return Ok(()) };
                drop(to.map(Letter::from).send(Arc::clone(steps)).await);
            }
            Step::SendTwice(to, steps) => {
                let Some(to) = self.net.peer(*to) else { return Ok(()) };
                drop(futures::join!(to.send(Arc::clone(steps).into()), to.send(Arc::clone(steps).into())));
            }
            Step::Ask(to, steps) => {
                let Some(to) = self.net.peer(*to) else { return Ok(()) };
                drop(to.ask(question(steps)).await);
            }
            Step::AskAdapted(to, steps) => {
                let Some(to) = self.net.peer(*to) else { return Ok(()) };
                drop(to.map(|letter: Letter| letter).ask(question(steps)).await);
            }
            Step::Publish(steps) => drop(self.net.topic.publish(Arc::clone(steps)).await),
            Step::Sleep(ms) => self.net.runtime.sleep_until(cx.now() + Duration::from_millis(*ms)).await,
            Step::Fail => return Err("injected failure".into()),
            Step::Panic => panic!("injected panic"),
            Step::Stop => cx.stop(),
        }
        Ok(())
    }
}

fn props(net: &Arc<Net>, plan: &Plan) -> Props<Peer> {
    let mailbox = Mailbox::bounded(plan.capacity);
    let mailbox = if plan.prioritised { mailbox.prioritised() } else { mailbox };
    let (net, made) = (Arc::clone(net), plan.clone());
    let props = Props::new(move || Peer { net: Arc::clone(&net), plan: made.clone() }).mailbox(mailbox);
    supervised(props, plan.kind)
}

const OFTEN: (u32, Duration) = (10_000, Duration::from_secs(1));

/// All kinds of supervision, with and without a wait.
fn supervised(props: Props<Peer>, kind: usize) -> Props<Peer> {
    let (often, wait) = (OFTEN, ExponentialBackoff::new(Duration::from_millis(2), Duration::from_millis(8)));
    match kind % 6 {
        0 => props.supervise(OneForOne::new().intensity(often.0, often.1)),
        1 => props.supervise(OneForAll::new().intensity(often.0, often.1)),
        2 => props.supervise(RestForOne::new().intensity(often.0, often.1)),
        3 => props.supervise(OneForOne::new().intensity(often.0, often.1).backoff(wait)),
        4 => props.supervise(OneForAll::new().intensity(often.0, often.1).backoff(wait)),
        _ => props.supervise(RestForOne::new().intensity(1, often.1)),
    }
}

fn supervisor(system: &ActorSystem, name: &str, kind: usize) -> Supervisor {
    let (often, wait) = (OFTEN, ExponentialBackoff::new(Duration::from_millis(2), Duration::from_millis(8)));
    let made = match kind % 6 {
        0 => system.supervisor(name, OneForOne::new().intensity(often.0, often.1)),
        1 => system.supervisor(name, OneForAll::new().intensity(often.0, often.1)),
        2 => system.supervisor(name, RestForOne::new().intensity(often.0, often.1)),
        3 => system.supervisor(name, OneForOne::new().intensity(often.0, often.1).backoff(wait)),
        4 => system.supervisor(name, RestForOne::new().intensity(often.0, often.1).backoff(wait)),
        _ => system.supervisor(name, OneForAll::new().intensity(2, often.1)),
    };
    made.unwrap()
}

fn steps(random: &mut Random, depth: usize) -> Steps {
    if depth == 0 {
        return Arc::default();
    }
    let many = random.below(4);
    Arc::new((0..many).map(|_| step(random, depth)).collect())
}

fn step(random: &mut Random, depth: usize) -> Step {
    let to = random.below(12);
    let next = steps(random, depth - 1);
    match random.below(24) {
        0..7 => Step::Send(to, next),
        7..9 => Step::SendAdapted(to, next),
        9 => Step::SendTwice(to, next),
        10..13 => Step::Ask(to, next),
        13 => Step::AskAdapted(to, next),
        14..18 => Step::Publish(next),
        18..21 => Step::Sleep(1 + random.below(3) as u64),
        21 => Step::Panic,
        22 => Step::Fail,
        _ if random.below(4) == 0 => Step::Stop,
        _ => Step::Fail,
    }
}

fn plan(random: &mut Random, name: String, depth: usize) -> Plan {
    let many = if depth == 0 { 0 } else { random.below(3) };
    let below = (0..many).map(|at| plan(random, format!("c{at}"), depth - 1)).collect();
    // A peer that fails as it starts would only use up its supervisor.
    let harmless = |step: &Step| !matches!(step, Step::Fail | Step::Panic | Step::Stop);
    let first =
        if random.below(3) == 0 { steps(random, 2).iter().filter(|step| harmless(step)).cloned().collect() } else { vec![] };
    Plan {
        name,
        capacity: 1 + random.below(2),
        prioritised: random.below(6) == 0,
        listens: random.below(3) == 0,
        first: Arc::new(first),
        below,
        kind: random.below(6),
    }
}

fn one_world(sim: &Sim) {
    let mut random = Random::seeded(sim.seed() ^ 0x57A1);
    let system = sim.system("net");
    let net = Arc::new(Net {
        runtime: sim.runtime(),
        peers: Mutex::default(),
        topic: Topic::new(),
        waits: Mutex::default(),
        last_wait: AtomicUsize::new(0),
    });
    for at in 0..1 + random.below(2) {
        let supervisor = supervisor(&system, &format!("s{at}"), random.below(6));
        for child in 0..1 + random.below(3) {
            let plan = plan(&mut random, format!("p{child}"), 2);
            let peer = supervisor.spawn(&plan.name, props(&net, &plan)).unwrap();
            net.peers.lock().unwrap().push(peer);
        }
    }
    let outside = system.scope("outside").unwrap();
    sim.run(async {
        for _ in 0..25 {
            let Some(peer) = net.peer(random.below(12)) else { break };
            let letter = Letter::from(steps(&mut random, 4));
            match random.below(12) {
                0 => sim.sleep(Duration::from_millis(1)).await,
                1 => sim.step_aside().await,
                2 => drop(peer.try_send_system(SystemMessage::Restart)),
                3 if random.below(3) == 0 => peer.stop(),
                4 if random.below(3) == 0 => peer.close(),
                5..8 => drop(peer.tell(letter)),
                // Somebody who is in nobody's way.
                _ => drop(outside.launch(async move { drop(peer.send(letter).await) })),
            }
        }
    });
    sim.advance(Duration::from_secs(3_600));
    let waits = net.waits.lock().unwrap().clone();
    assert!(waits.is_empty(), "these wait for good: {waits:#?}\nsubscribers: {:?}", net.topic);
    assert!(system.counts().is_settled(), "{}", system.counts());
    assert_eq!(outside.any().exit(), None);
    sim.run(system.shutdown(Duration::from_secs(60))).unwrap();
    assert!(system.counts().is_settled(), "{}", system.counts());
}

#[test]
fn w2_no_wait_lasts_for_good_in_random_trees() {
    quiet();
    explore(0..2_000, one_world);
}
