//! A search for waits that never end. Random trees of actors with small mailboxes send, ask and publish to each other and await it, also in
//! groups and scopes that they await, while their supervisors restart and stop them. When the simulator has nothing left to run, nobody waits, and the counts balance.

use crate::common::quiet;
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
    /// Tasks of a group of its own, and how it awaits them.
    Group(usize, Vec<Steps>),
    /// Tasks of a scope of its own, and how it awaits them.
    Scope(usize, Vec<Steps>),
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

impl Net {
    /// The steps of a task. It awaits its answers for a while only: a circle in which nobody waits for room is opened by nobody.
    async fn walk(self: Arc<Self>, who: ActorPath, steps: Steps) {
        for step in steps.iter() {
            if self.last_wait.load(Relaxed) > STEPS_MAX {
                return;
            }
            let noted = self.wait(&who, step);
            self.take(step, Some(Duration::from_millis(20))).await;
            drop(noted);
        }
    }

    /// Refusals are as good as any other answer here: what counts is that one comes.
    async fn take(&self, step: &Step, patience: Option<Duration>) {
        let question = |steps: &Steps| {
            let steps = Arc::clone(steps);
            move |reply| Letter { steps, reply: Some(reply) }
        };
        let to = |number: usize| self.peer(number);
        match step {
            Step::Send(number, steps) => {
                let Some(to) = to(*number) else { return };
                drop(to.send(Arc::clone(steps).into()).await);
            }
            Step::SendAdapted(number, steps) => {
                let Some(to) = to(*number) else { return };
                drop(to.map(Letter::from).send(Arc::clone(steps)).await);
            }
            Step::SendTwice(number, steps) => {
                let Some(to) = to(*number) else { return };
                drop(futures::join!(to.send(Arc::clone(steps).into()), to.send(Arc::clone(steps).into())));
            }
            Step::Ask(number, steps) => {
                let Some(to) = to(*number) else { return };
                let ask = to.ask(question(steps));
                drop(if let Some(patience) = patience { ask.timeout(patience).await } else { ask.await });
            }
            Step::AskAdapted(number, steps) => {
                let Some(to) = to(*number).map(|to| to.map(|letter: Letter| letter)) else { return };
                let ask = to.ask(question(steps));
                drop(if let Some(patience) = patience { ask.timeout(patience).await } else { ask.await });
            }
            Step::Publish(steps) => drop(self.topic.publish(Arc::clone(steps)).await),
            Step::Sleep(ms) => self.runtime.sleep_until(self.runtime.now() + Duration::from_millis(*ms)).await,
            Step::Fail | Step::Panic | Step::Stop | Step::Group(..) | Step::Scope(..) => {}
        }
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

    async fn take(&self, step: &Step, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match step {
            Step::Fail => return Err("injected failure".into()),
            Step::Panic => panic!("injected panic"),
            Step::Stop => cx.stop(),
            Step::Group(how, tasks) => self.await_group(*how, tasks, cx).await,
            Step::Scope(how, tasks) => self.await_scope(*how, tasks, cx).await,
            step => self.net.take(step, None).await,
        }
        Ok(())
    }

    /// A name for the next group or scope of this world.
    fn fresh_name(&self) -> String {
        format!("t{}", self.net.last_wait.fetch_add(1, Relaxed))
    }

    async fn await_group(&self, how: usize, tasks: &[Steps], cx: &mut Context<Self>) {
        let builder = cx.group::<()>(&self.fresh_name());
        let Ok(group) = (if how.is_multiple_of(2) { builder.limit(1) } else { builder }).build() else { return };
        for steps in tasks {
            let path = group.path();
            drop(group.go(Arc::clone(&self.net).walk(path, Arc::clone(steps))).await);
        }
        group.close();
        match how % 4 {
            0 => drop(group.wait().await),
            1 => drop(group.drain().await),
            2 => drop(group.any_ref().exited().await),
            _ => drop(group.next().await),
        }
    }

    async fn await_scope(&self, how: usize, tasks: &[Steps], cx: &mut Context<Self>) {
        let Ok(scope) = cx.scope(&self.fresh_name()) else { return };
        let launch = |steps: &Steps| scope.launch(Arc::clone(&self.net).walk(scope.path(), Arc::clone(steps))).ok();
        let tasks: Vec<_> = tasks.iter().filter_map(launch).collect();
        match how % 3 {
            0 => drop(scope.wait_all().await),
            1 => {
                scope.close();
                scope.exited().await;
            }
            _ => {
                for task in tasks {
                    task.exited().await;
                }
            }
        }
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

/// Where random steps come from, and whether handlers have groups and scopes.
struct Dice {
    random: Random,
    with_tasks: bool,
}

impl Dice {
    /// A kind of supervision. With groups and scopes it is the same everywhere: each child restarts by itself.
    fn kind(&mut self) -> usize {
        let kind = self.random.below(6);
        if self.with_tasks { 3 * (kind % 2) } else { kind }
    }
}

fn steps(dice: &mut Dice, depth: usize) -> Steps {
    if depth == 0 {
        return Arc::default();
    }
    let many = dice.random.below(4);
    Arc::new((0..many).map(|_| step(dice, depth)).collect())
}

fn step(dice: &mut Dice, depth: usize) -> Step {
    let to = dice.random.below(12);
    if dice.with_tasks && dice.random.below(4) == 0 {
        let tasks = (0..1 + dice.random.below(3)).map(|_| steps(dice, depth - 1)).collect();
        return if dice.random.below(2) == 0 { Step::Group(to, tasks) } else { Step::Scope(to, tasks) };
    }
    let next = steps(dice, depth - 1);
    let random = &mut dice.random;
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

fn plan(dice: &mut Dice, name: String, depth: usize) -> Plan {
    let many = if depth == 0 { 0 } else { dice.random.below(3) };
    let below = (0..many).map(|at| plan(dice, format!("c{at}"), depth - 1)).collect();
    // A peer that fails as it starts would only use up its supervisor.
    let harmless = |step: &Step| !matches!(step, Step::Fail | Step::Panic | Step::Stop);
    let first =
        if dice.random.below(3) == 0 { steps(dice, 2).iter().filter(|step| harmless(step)).cloned().collect() } else { vec![] };
    Plan {
        name,
        capacity: 1 + dice.random.below(2),
        prioritised: dice.random.below(6) == 0,
        listens: dice.random.below(3) == 0,
        first: Arc::new(first),
        below,
        kind: dice.kind(),
    }
}

fn one_world(sim: &Sim, with_tasks: bool) {
    let mut dice = Dice { random: Random::seeded(sim.seed() ^ 0x57A1), with_tasks };
    let system = sim.system("net");
    let net = Arc::new(Net {
        runtime: sim.runtime(),
        peers: Mutex::default(),
        topic: Topic::new(),
        waits: Mutex::default(),
        last_wait: AtomicUsize::new(0),
    });
    for at in 0..1 + dice.random.below(2) {
        let supervisor = supervisor(&system, &format!("s{at}"), dice.kind());
        for child in 0..1 + dice.random.below(3) {
            let plan = plan(&mut dice, format!("p{child}"), 2);
            let peer = supervisor.spawn(&plan.name, props(&net, &plan)).unwrap();
            net.peers.lock().unwrap().push(peer);
        }
    }
    let outside = system.scope("outside").unwrap();
    sim.run(async {
        for _ in 0..25 {
            let Some(peer) = net.peer(dice.random.below(12)) else { break };
            let letter = Letter::from(steps(&mut dice, 4));
            let random = &mut dice.random;
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
    explore(0..2_000, |sim| one_world(sim, false));
}

#[test]
fn w2_no_wait_for_a_group_or_a_scope_lasts_for_good() {
    quiet();
    explore(0..1_000, |sim| one_world(sim, true));
}
