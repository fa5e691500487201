//! W2: a search for waits that never end. Random trees of actors with small mailboxes send, ask and
//! publish to each other and await that, also in groups and scopes. Meanwhile their supervisors
//! restart and stop them. When the simulator is idle, no actor waits, and the counts balance.

use crate::common::quiet;
use pleach::BoxError;
use pleach::prelude::*;
use pleach::routing::{SlowSubscriber, Topic};
use pleach::runtime::{Random, Runtime};
use pleach::sim::{Sim, explore};
use pleach::supervise::ExponentialBackoff;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The steps of a handler, in order.
type Steps = Arc<Vec<Step>>;

/// One step that a handler awaits. Numbers are indices of peers.
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
    /// Starts tasks in a new group and awaits them. The number selects how.
    Group(usize, Vec<Steps>),
    /// Starts tasks in a new scope and awaits them. The number selects how.
    Scope(usize, Vec<Steps>),
}

struct PeerMessage {
    steps: Steps,
    reply: Option<Reply<()>>,
}

impl From<Steps> for PeerMessage {
    fn from(steps: Steps) -> Self {
        Self { steps, reply: None }
    }
}

/// Shared by all peers of a test.
struct Net {
    runtime: Arc<dyn Runtime>,
    peers: Mutex<Vec<ActorRef<PeerMessage>>>,
    topic: Topic<Steps>,
    waits: Mutex<BTreeMap<usize, String>>,
    last_wait: AtomicUsize,
}

/// Limit of the steps of all peers. Restarts could otherwise add steps forever.
const STEPS_MAX: usize = 300;

impl Net {
    fn peer(&self, number: usize) -> Option<ActorRef<PeerMessage>> {
        let peers = self.peers.lock().unwrap();
        peers.get(number % peers.len().max(1)).cloned()
    }

    /// Records a wait and its waiter, until the returned value is dropped.
    fn wait(self: &Arc<Self>, who: &ActorPath, step: &Step) -> WaitRecord {
        let key = self.last_wait.fetch_add(1, Relaxed);
        let receiver = match step {
            Step::Send(to, _)
            | Step::SendAdapted(to, _)
            | Step::SendTwice(to, _)
            | Step::Ask(to, _)
            | Step::AskAdapted(to, _) => self.peer(*to).map(|peer| peer.path()),
            _ => None,
        };
        let text = format!("{step:?}").chars().take(40).collect::<String>();
        self.waits.lock().unwrap().insert(key, format!("{who}: {text} to {receiver:?}"));
        WaitRecord(Arc::clone(self), key)
    }

    /// Executes the steps of a task. Asks time out: a cycle without a full mailbox is not resolved.
    async fn execute_all(self: Arc<Self>, who: ActorPath, steps: Steps) {
        for step in steps.iter() {
            if self.last_wait.load(Relaxed) > STEPS_MAX {
                return;
            }
            let wait = self.wait(&who, step);
            self.execute(step, Some(Duration::from_millis(20))).await;
            drop(wait);
        }
    }

    /// Executes one step. A refusal is a valid result here.
    async fn execute(&self, step: &Step, timeout: Option<Duration>) {
        let ask_message = |steps: &Steps| {
            let steps = Arc::clone(steps);
            move |reply| PeerMessage { steps, reply: Some(reply) }
        };
        let to = |number: usize| self.peer(number);
        match step {
            Step::Send(number, steps) => {
                let Some(to) = to(*number) else { return };
                drop(to.send(Arc::clone(steps).into()).await);
            }
            Step::SendAdapted(number, steps) => {
                let Some(to) = to(*number) else { return };
                drop(to.map(PeerMessage::from).send(Arc::clone(steps)).await);
            }
            Step::SendTwice(number, steps) => {
                let Some(to) = to(*number) else { return };
                drop(futures::join!(to.send(Arc::clone(steps).into()), to.send(Arc::clone(steps).into())));
            }
            Step::Ask(number, steps) => {
                let Some(to) = to(*number) else { return };
                let ask = to.ask(ask_message(steps));
                drop(if let Some(timeout) = timeout { ask.timeout(timeout).await } else { ask.await });
            }
            Step::AskAdapted(number, steps) => {
                let Some(to) = to(*number).map(|to| to.map(|message: PeerMessage| message)) else { return };
                let ask = to.ask(ask_message(steps));
                drop(if let Some(timeout) = timeout { ask.timeout(timeout).await } else { ask.await });
            }
            Step::Publish(steps) => drop(self.topic.publish(Arc::clone(steps)).await),
            Step::Sleep(ms) => self.runtime.sleep_until(self.runtime.now() + Duration::from_millis(*ms)).await,
            Step::Fail | Step::Panic | Step::Stop | Step::Group(..) | Step::Scope(..) => {}
        }
    }
}

struct WaitRecord(Arc<Net>, usize);

impl Drop for WaitRecord {
    fn drop(&mut self) {
        self.0.waits.lock().unwrap().remove(&self.1);
    }
}

/// How to create a peer and its children.
#[derive(Clone)]
struct Plan {
    name: String,
    capacity: usize,
    prioritised: bool,
    subscribes: bool,
    first: Steps,
    children: Vec<Plan>,
    kind: usize,
}

struct Peer {
    net: Arc<Net>,
    plan: Plan,
}

impl Actor for Peer {
    type Msg = PeerMessage;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        for plan in &self.plan.children {
            let child = cx.spawn(&plan.name, props(&self.net, plan)).map_err(|_| "no child")?;
            self.net.peers.lock().unwrap().push(child);
        }
        if self.plan.subscribes {
            self.net.topic.subscribe_with(&cx.me(), SlowSubscriber::Wait, PeerMessage::from);
        }
        let steps = Arc::clone(&self.plan.first);
        self.execute_all(&steps, cx).await
    }

    async fn handle(&mut self, message: PeerMessage, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.execute_all(&message.steps, cx).await?;
        if let Some(reply) = message.reply {
            reply.send(());
        }
        Ok(())
    }
}

impl Peer {
    async fn execute_all(&mut self, steps: &Steps, cx: &mut Context<Self>) -> Result<(), BoxError> {
        for step in steps.iter() {
            if self.net.last_wait.load(Relaxed) > STEPS_MAX {
                return Ok(());
            }
            let wait = self.net.wait(&cx.path(), step);
            self.execute(step, cx).await?;
            drop(wait);
        }
        Ok(())
    }

    async fn execute(&self, step: &Step, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match step {
            Step::Fail => return Err("injected failure".into()),
            Step::Panic => panic!("injected panic"),
            Step::Stop => cx.stop(),
            Step::Group(how, tasks) => self.await_group(*how, tasks, cx).await,
            Step::Scope(how, tasks) => self.await_scope(*how, tasks, cx).await,
            step => self.net.execute(step, None).await,
        }
        Ok(())
    }

    /// A unique name for the next group or scope.
    fn next_name(&self) -> String {
        format!("t{}", self.net.last_wait.fetch_add(1, Relaxed))
    }

    async fn await_group(&self, how: usize, tasks: &[Steps], cx: &mut Context<Self>) {
        let builder = cx.group::<()>(&self.next_name());
        let Ok(group) = (if how.is_multiple_of(2) { builder.limit(1) } else { builder }).build() else { return };
        for steps in tasks {
            let path = group.path();
            drop(group.go(Arc::clone(&self.net).execute_all(path, Arc::clone(steps))).await);
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
        let Ok(scope) = cx.scope(&self.next_name()) else { return };
        let launch = |steps: &Steps| scope.launch(Arc::clone(&self.net).execute_all(scope.path(), Arc::clone(steps))).ok();
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
    let (net, peer_plan) = (Arc::clone(net), plan.clone());
    let props = Props::new(move || Peer { net: Arc::clone(&net), plan: peer_plan.clone() }).mailbox(mailbox);
    supervised(props, plan.kind)
}

const MANY_RESTARTS: (u32, Duration) = (10_000, Duration::from_secs(1));

/// All kinds of supervision, with and without backoff.
fn supervised(props: Props<Peer>, kind: usize) -> Props<Peer> {
    let (many, wait) = (MANY_RESTARTS, ExponentialBackoff::new(Duration::from_millis(2), Duration::from_millis(8)));
    match kind % 6 {
        0 => props.supervise(OneForOne::new().restart_limit(many.0, many.1)),
        1 => props.supervise(OneForAll::new().restart_limit(many.0, many.1)),
        2 => props.supervise(RestForOne::new().restart_limit(many.0, many.1)),
        3 => props.supervise(OneForOne::new().restart_limit(many.0, many.1).backoff(wait)),
        4 => props.supervise(OneForAll::new().restart_limit(many.0, many.1).backoff(wait)),
        _ => props.supervise(RestForOne::new().restart_limit(1, many.1)),
    }
}

fn supervisor(system: &ActorSystem, name: &str, kind: usize) -> Supervisor {
    let (many, wait) = (MANY_RESTARTS, ExponentialBackoff::new(Duration::from_millis(2), Duration::from_millis(8)));
    let supervisor = match kind % 6 {
        0 => system.supervisor(name, OneForOne::new().restart_limit(many.0, many.1)),
        1 => system.supervisor(name, OneForAll::new().restart_limit(many.0, many.1)),
        2 => system.supervisor(name, RestForOne::new().restart_limit(many.0, many.1)),
        3 => system.supervisor(name, OneForOne::new().restart_limit(many.0, many.1).backoff(wait)),
        4 => system.supervisor(name, RestForOne::new().restart_limit(many.0, many.1).backoff(wait)),
        _ => system.supervisor(name, OneForAll::new().restart_limit(2, many.1)),
    };
    supervisor.unwrap()
}

/// The source of random steps, with or without groups and scopes.
struct StepSource {
    random: Random,
    with_tasks: bool,
}

impl StepSource {
    /// A kind of supervision. With groups and scopes it is always one for one.
    fn kind(&mut self) -> usize {
        let kind = self.random.below(6);
        if self.with_tasks { 3 * (kind % 2) } else { kind }
    }
}

fn steps(source: &mut StepSource, depth: usize) -> Steps {
    if depth == 0 {
        return Arc::default();
    }
    let count = source.random.below(4);
    Arc::new((0..count).map(|_| step(source, depth)).collect())
}

fn step(source: &mut StepSource, depth: usize) -> Step {
    let to = source.random.below(12);
    if source.with_tasks && source.random.below(4) == 0 {
        let tasks = (0..1 + source.random.below(3)).map(|_| steps(source, depth - 1)).collect();
        return if source.random.below(2) == 0 { Step::Group(to, tasks) } else { Step::Scope(to, tasks) };
    }
    let next = steps(source, depth - 1);
    let random = &mut source.random;
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

fn plan(source: &mut StepSource, name: String, depth: usize) -> Plan {
    let count = if depth == 0 { 0 } else { source.random.below(3) };
    let children = (0..count).map(|at| plan(source, format!("c{at}"), depth - 1)).collect();
    // A peer that fails at its start would only exhaust the restart limit.
    let does_not_end = |step: &Step| !matches!(step, Step::Fail | Step::Panic | Step::Stop);
    let first = if source.random.below(3) == 0 {
        steps(source, 2).iter().filter(|step| does_not_end(step)).cloned().collect()
    } else {
        vec![]
    };
    Plan {
        name,
        capacity: 1 + source.random.below(2),
        prioritised: source.random.below(6) == 0,
        subscribes: source.random.below(3) == 0,
        first: Arc::new(first),
        children,
        kind: source.kind(),
    }
}

fn run_schedule(sim: &Sim, with_tasks: bool) {
    let mut source = StepSource { random: Random::seeded(sim.seed() ^ 0x57A1), with_tasks };
    let system = sim.system("net");
    let net = Arc::new(Net {
        runtime: sim.runtime(),
        peers: Mutex::default(),
        topic: Topic::new(),
        waits: Mutex::default(),
        last_wait: AtomicUsize::new(0),
    });
    for at in 0..1 + source.random.below(2) {
        let supervisor = supervisor(&system, &format!("s{at}"), source.kind());
        for child in 0..1 + source.random.below(3) {
            let plan = plan(&mut source, format!("p{child}"), 2);
            let peer = supervisor.spawn(&plan.name, props(&net, &plan)).unwrap();
            net.peers.lock().unwrap().push(peer);
        }
    }
    let outside = system.scope("outside").unwrap();
    sim.run(async {
        for _ in 0..25 {
            let Some(peer) = net.peer(source.random.below(12)) else { break };
            let message = PeerMessage::from(steps(&mut source, 4));
            let random = &mut source.random;
            match random.below(12) {
                0 => sim.sleep(Duration::from_millis(1)).await,
                1 => sim.yield_now().await,
                2 => drop(peer.try_send_system(SystemMessage::Restart)),
                3 if random.below(3) == 0 => peer.stop(),
                4 if random.below(3) == 0 => peer.close(),
                5..8 => drop(peer.tell(message)),
                // A sender outside of the tree of peers.
                _ => drop(outside.launch(async move { drop(peer.send(message).await) })),
            }
        }
    });
    sim.advance(Duration::from_secs(3_600));
    let waits = net.waits.lock().unwrap().clone();
    assert!(waits.is_empty(), "these wait forever: {waits:#?}\nsubscribers: {:?}", net.topic);
    assert!(system.counts().is_settled(), "{}", system.counts());
    assert_eq!(outside.any().exit(), None);
    sim.run(system.shutdown(Duration::from_secs(60))).unwrap();
    assert!(system.counts().is_settled(), "{}", system.counts());
}

#[test]
fn w2_no_wait_lasts_forever_in_random_trees() {
    quiet();
    explore(0..2_000, |sim| run_schedule(sim, false));
}

#[test]
fn w2_no_wait_for_a_group_or_a_scope_lasts_forever() {
    quiet();
    explore(0..1_000, |sim| run_schedule(sim, true));
}
