//! S2, S3, S4: a supervisor does what OTP's rules say, for 100,000 random sequences.
//!
//! The reference is plain code: a list of children in start order, the times of restarts, and the rules of OTP's `supervisor` applied one
//! event after the other. Two things differ, by design, and are in the reference as they are here: a child that ended is gone for good
//! (OTP keeps the specification of a transient one and starts it again with its group), and a child is down by itself when it failed, so
//! only the ends of the others are compared in order.

use crate::common::Log;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::{BoxError, Random, Reach, RestartBudget, RestartPolicy, Restarts, SupervisorStrategy};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const POLICIES: [RestartPolicy; 3] = [RestartPolicy::Permanent, RestartPolicy::Transient, RestartPolicy::Temporary];

/// What happens to a supervisor and its children.
#[derive(Clone, Copy, Debug)]
enum Happens {
    /// This child fails.
    Fails(usize),
    /// The next starts of this child fail, so many of them.
    BadStarts(usize, u32),
    /// Somebody stops this child who is not its supervisor.
    Ends(usize),
    /// The supervisor stops this child.
    StopChild(usize),
    /// A child is added.
    Add(RestartPolicy),
    /// So many milliseconds pass.
    Pass(u64),
}

struct Child {
    id: usize,
    policy: RestartPolicy,
    up: bool,
}

/// OTP's rules.
struct Model {
    rules: Restarts,
    now: u64,
    restarts: Vec<u64>,
    children: Vec<Child>,
    born: usize,
    bad_starts: [u32; NAMES.len()],
    over: bool,
    log: Vec<String>,
}

impl Model {
    fn happens(&mut self, what: Happens) {
        let policy = |id: usize| self.children.iter().find(|child| child.id == id).map(|child| child.policy);
        match what {
            Happens::Pass(ms) => self.now += ms,
            Happens::Add(policy) if !self.over && self.born < NAMES.len() => {
                self.children.push(Child { id: self.born, policy, up: true });
                self.log.push(format!("up {}", NAMES[self.born]));
                self.born += 1;
            }
            Happens::Add(_) => {}
            Happens::BadStarts(id, times) => self.bad_starts[id] = if policy(id).is_some() { times } else { 0 },
            Happens::StopChild(id) => {
                if policy(id).is_some() {
                    self.down(id);
                    self.remove(id);
                }
            }
            Happens::Fails(id) => match policy(id) {
                None => {}
                Some(RestartPolicy::Temporary) => self.remove(id),
                Some(_) => self.restart(id),
            },
            Happens::Ends(id) => match policy(id) {
                None => {}
                Some(RestartPolicy::Permanent) => self.restart(id),
                Some(_) => {
                    self.down(id);
                    self.remove(id);
                }
            },
        }
    }

    fn remove(&mut self, id: usize) {
        self.children.retain(|child| child.id != id);
    }

    fn down(&mut self, id: usize) {
        self.log.push(format!("down {}", NAMES[id]));
    }

    /// `failed` is down and is to start again, with whoever restarts with it.
    fn restart(&mut self, mut failed: usize) {
        loop {
            let window = self.rules.window.as_millis() as u64;
            let within = self.restarts.iter().filter(|at| self.now - **at <= window).count();
            self.children.iter_mut().filter(|child| child.id == failed).for_each(|child| child.up = false);
            if within as u32 >= self.rules.restarts_max {
                self.take_down(|_| true);
                self.children.clear();
                self.over = true;
                return;
            }
            self.restarts.push(self.now);
            let reach = self.rules.reach;
            self.take_down(|id| match reach {
                Reach::One => id == failed,
                Reach::All => true,
                _ => id >= failed,
            });
            let Some(next) = self.start_all() else { return };
            failed = next;
        }
    }

    /// Takes down what is up and concerned, the youngest first; a temporary child for good.
    fn take_down(&mut self, concerned: impl Fn(usize) -> bool) {
        for child in self.children.iter_mut().rev().filter(|child| child.up && concerned(child.id)) {
            child.up = false;
            self.log.push(format!("down {}", NAMES[child.id]));
        }
        self.children.retain(|child| child.up || child.policy != RestartPolicy::Temporary);
    }

    /// Starts what is down, the oldest first, until one does not start: that one.
    fn start_all(&mut self) -> Option<usize> {
        for child in self.children.iter_mut().filter(|child| !child.up) {
            if self.bad_starts[child.id] > 0 {
                self.bad_starts[child.id] -= 1;
                return Some(child.id);
            }
            child.up = true;
            self.log.push(format!("up {}", NAMES[child.id]));
        }
        None
    }
}

/// A child that says when it is up, and when it goes down unless it failed.
struct Worker {
    id: usize,
    bad_starts: Arc<[AtomicU32; NAMES.len()]>,
    log: Log<String>,
}

impl Actor for Worker {
    type Msg = ();
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let bad =
            cx.incarnation() > 0 && self.bad_starts[self.id].fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if bad {
            return Err("a bad start".into());
        }
        self.log.note(format!("up {}", NAMES[self.id]));
        Ok(())
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err("failed".into())
    }

    async fn stopped(&mut self, exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        if !matches!(exit, Exit::Failed(_)) {
            self.log.note(format!("down {}", NAMES[self.id]));
        }
        Ok(())
    }
}

/// The same as the model, in pleach.
struct Crew {
    supervisor: Supervisor,
    children: Vec<ActorRef<()>>,
    bad_starts: Arc<[AtomicU32; NAMES.len()]>,
    log: Log<String>,
}

impl Crew {
    fn happens(&mut self, sim: &Sim, what: Happens) {
        let known = |id: usize| self.children.get(id).filter(|child| child.exit().is_none());
        match what {
            Happens::Pass(ms) => sim.advance(Duration::from_millis(ms)),
            Happens::Add(policy) if self.supervisor.any().exit().is_none() && self.children.len() < NAMES.len() => {
                let (id, bad_starts, log) = (self.children.len(), Arc::clone(&self.bad_starts), self.log.clone());
                let props = Props::new(move || Worker { id, bad_starts: Arc::clone(&bad_starts), log: log.clone() });
                self.children.push(self.supervisor.spawn(NAMES[id], props.restart(policy)).unwrap());
            }
            Happens::Add(_) => {}
            Happens::BadStarts(id, times) => self.bad_starts[id].store(known(id).map_or(0, |_| times), Relaxed),
            Happens::StopChild(id) => drop(self.supervisor.stop_child(NAMES[id])),
            Happens::Fails(id) => known(id).into_iter().for_each(|child| child.tell(()).unwrap()),
            Happens::Ends(id) => known(id).into_iter().for_each(ActorRef::stop),
        }
        sim.settle();
    }
}

fn anything(random: &mut Random) -> Happens {
    let child = random.below(NAMES.len());
    match random.below(10) {
        0..3 => Happens::Fails(child),
        3 => Happens::BadStarts(child, 1 + random.below(3) as u32),
        4 | 5 => Happens::Ends(child),
        6 => Happens::StopChild(child),
        7 | 8 => Happens::Add(POLICIES[random.below(3)]),
        _ => Happens::Pass(1 + random.below(30) as u64),
    }
}

/// Any strategy that restarts, by its rules alone.
struct ByRules(Restarts);

impl SupervisorStrategy for ByRules {
    fn decide(&self, _failure: &FailureInfo) -> SupervisorDirective {
        SupervisorDirective::Restart
    }

    fn restarts(&self) -> Restarts {
        self.0
    }
}

fn one_sequence(seed: u64) {
    let mut random = Random::seeded(seed);
    let reach = [Reach::One, Reach::All, Reach::Rest][random.below(3)];
    let (restarts_max, window) = (random.below(5) as u32, Duration::from_millis(random.below(40) as u64));
    let rules = Restarts { reach, restarts_max, window, backoff: None, budget: RestartBudget::Shared };
    let (sim, log) = (Sim::new(seed), Log::new());
    let system = sim.system("otp");
    let supervisor = system.supervisor("crew", ByRules(rules)).unwrap();
    let mut crew = Crew { supervisor, children: Vec::new(), bad_starts: Arc::default(), log: log.clone() };
    let mut model = Model {
        rules,
        now: 0,
        restarts: Vec::new(),
        children: Vec::new(),
        born: 0,
        bad_starts: [0; NAMES.len()],
        over: false,
        log: Vec::new(),
    };
    let mut story = vec![format!("{rules:?}")];
    for turn in 0..12 {
        let what = if turn < 2 { Happens::Add(POLICIES[random.below(2)]) } else { anything(&mut random) };
        story.push(format!("{what:?}"));
        model.happens(what);
        crew.happens(&sim, what);
        assert_eq!(log.take(), std::mem::take(&mut model.log), "seed {seed}: {story:#?}");
        let live: Vec<String> = crew.supervisor.children().iter().map(|child| child.path().to_string()).collect();
        let expected: Vec<String> = model.children.iter().map(|child| format!("/user/crew/{}", NAMES[child.id])).collect();
        assert_eq!((live, crew.supervisor.any().exit().is_some()), (expected, model.over), "seed {seed}: {story:#?}");
    }
}

#[test]
fn s2_s3_s4_a_supervisor_follows_the_rules_of_otp_in_100_000_sequences() {
    crate::common::quiet();
    (0..100_000).for_each(one_sequence);
}
