//! S2, S3 and S4: a supervisor follows OTP's rules in 100,000 random sequences.
//!
//! The reference is plain code: a list of children in start order, the times of restarts, and the
//! rules of OTP's `supervisor` applied to one event after another. It has two intended differences
//! from OTP. A child that ended is removed (OTP keeps the specification of a transient child and
//! starts it again with its group). A failed child is already down, so only the stops of the other
//! children are compared in order.

use crate::common::{Log, on_all_cores, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::runtime::Random;
use pleach::sim::Sim;
use pleach::supervise::{Reach, RestartLimitScope, RestartPolicy, RestartRules, SupervisorStrategy};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const POLICIES: [RestartPolicy; 3] = [RestartPolicy::Permanent, RestartPolicy::Transient, RestartPolicy::Temporary];

/// An event for a supervisor and its children.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// This child fails.
    Fails(usize),
    /// This many of the next starts of this child fail.
    BadStarts(usize, u32),
    /// This child is stopped, but not by its supervisor.
    Ends(usize),
    /// The supervisor stops this child.
    StopChild(usize),
    /// A child is added.
    Add(RestartPolicy),
    /// This many milliseconds pass.
    Pass(u64),
}

struct Child {
    id: usize,
    policy: RestartPolicy,
    up: bool,
}

/// OTP's rules.
struct Model {
    rules: RestartRules,
    now: u64,
    restarts: Vec<u64>,
    children: Vec<Child>,
    created: usize,
    bad_starts: [u32; NAMES.len()],
    gave_up: bool,
    log: Vec<String>,
}

impl Model {
    fn apply(&mut self, action: Action) {
        let policy = |id: usize| self.children.iter().find(|child| child.id == id).map(|child| child.policy);
        match action {
            Action::Pass(ms) => self.now += ms,
            Action::Add(policy) if !self.gave_up && self.created < NAMES.len() => {
                self.children.push(Child { id: self.created, policy, up: true });
                self.log.push(format!("up {}", NAMES[self.created]));
                self.created += 1;
            }
            Action::Add(_) => {}
            Action::BadStarts(id, times) => self.bad_starts[id] = if policy(id).is_some() { times } else { 0 },
            Action::StopChild(id) => {
                if policy(id).is_some() {
                    self.down(id);
                    self.remove(id);
                }
            }
            Action::Fails(id) => match policy(id) {
                None => {}
                Some(RestartPolicy::Temporary) => self.remove(id),
                Some(_) => self.restart(id),
            },
            Action::Ends(id) => match policy(id) {
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

    /// Restarts `failed`, which is down, and the children that restart with it.
    fn restart(&mut self, mut failed: usize) {
        loop {
            let window = self.rules.window.as_millis() as u64;
            let within = self.restarts.iter().filter(|at| self.now - **at <= window).count();
            self.children.iter_mut().filter(|child| child.id == failed).for_each(|child| child.up = false);
            if within as u32 >= self.rules.restarts_max {
                self.take_down(|_| true);
                self.children.clear();
                self.gave_up = true;
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

    /// Stops the affected children, youngest first. Removes temporary children.
    fn take_down(&mut self, is_affected: impl Fn(usize) -> bool) {
        for child in self.children.iter_mut().rev().filter(|child| child.up && is_affected(child.id)) {
            child.up = false;
            self.log.push(format!("down {}", NAMES[child.id]));
        }
        self.children.retain(|child| child.up || child.policy != RestartPolicy::Temporary);
    }

    /// Starts the children that are down, oldest first. Returns the first that fails to start.
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

/// A child that logs its starts, and its stops unless it failed.
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

/// The real supervisor, driven by the same events as the model.
struct RealSupervisor {
    supervisor: Supervisor,
    children: Vec<ActorRef<()>>,
    bad_starts: Arc<[AtomicU32; NAMES.len()]>,
    log: Log<String>,
}

impl RealSupervisor {
    fn apply(&mut self, sim: &Sim, action: Action) {
        let live_child = |id: usize| self.children.get(id).filter(|child| child.exit().is_none());
        match action {
            Action::Pass(ms) => sim.advance(Duration::from_millis(ms)),
            Action::Add(policy) if self.supervisor.any().exit().is_none() && self.children.len() < NAMES.len() => {
                let (id, bad_starts, log) = (self.children.len(), Arc::clone(&self.bad_starts), self.log.clone());
                let props = Props::new(move || Worker { id, bad_starts: Arc::clone(&bad_starts), log: log.clone() });
                self.children.push(self.supervisor.spawn(NAMES[id], props.restart(policy)).unwrap());
            }
            Action::Add(_) => {}
            Action::BadStarts(id, times) => self.bad_starts[id].store(live_child(id).map_or(0, |_| times), Relaxed),
            Action::StopChild(id) => drop(self.supervisor.stop_child(NAMES[id])),
            Action::Fails(id) => live_child(id).into_iter().for_each(|child| child.tell(()).unwrap()),
            Action::Ends(id) => live_child(id).into_iter().for_each(ActorRef::stop),
        }
        sim.settle();
    }
}

fn random_action(random: &mut Random) -> Action {
    let child = random.below(NAMES.len());
    match random.below(10) {
        0..3 => Action::Fails(child),
        3 => Action::BadStarts(child, 1 + random.below(3) as u32),
        4 | 5 => Action::Ends(child),
        6 => Action::StopChild(child),
        7 | 8 => Action::Add(POLICIES[random.below(3)]),
        _ => Action::Pass(1 + random.below(30) as u64),
    }
}

/// A strategy that always restarts, with the given rules.
struct ByRules(RestartRules);

impl SupervisorStrategy for ByRules {
    fn decide(&self, _failure: &FailureInfo) -> SupervisorDirective {
        SupervisorDirective::Restart
    }

    fn restarts(&self) -> RestartRules {
        self.0
    }
}

fn run_sequence(seed: u64) {
    let mut random = Random::seeded(seed);
    let reach = [Reach::One, Reach::All, Reach::Rest][random.below(3)];
    let (restarts_max, window) = (random.below(5) as u32, Duration::from_millis(random.below(40) as u64));
    let rules = RestartRules { reach, restarts_max, window, backoff: None, limit_scope: RestartLimitScope::Shared };
    let (sim, log) = (Sim::new(seed), Log::new());
    let system = sim.system("otp");
    let supervisor = system.supervisor("supervisor", ByRules(rules)).unwrap();
    let mut real = RealSupervisor { supervisor, children: Vec::new(), bad_starts: Arc::default(), log: log.clone() };
    let mut model = Model {
        rules,
        now: 0,
        restarts: Vec::new(),
        children: Vec::new(),
        created: 0,
        bad_starts: [0; NAMES.len()],
        gave_up: false,
        log: Vec::new(),
    };
    let mut history = vec![format!("{rules:?}")];
    for step in 0..12 {
        let action = if step < 2 { Action::Add(POLICIES[random.below(2)]) } else { random_action(&mut random) };
        history.push(format!("{action:?}"));
        model.apply(action);
        real.apply(&sim, action);
        assert_eq!(log.take(), std::mem::take(&mut model.log), "seed {seed}: {history:#?}");
        let live: Vec<String> = real.supervisor.children().iter().map(|child| child.path().to_string()).collect();
        let expected: Vec<String> =
            model.children.iter().map(|child| format!("/user/supervisor/{}", NAMES[child.id])).collect();
        assert_eq!((live, real.supervisor.any().exit().is_some()), (expected, model.gave_up), "seed {seed}: {history:#?}");
    }
}

#[test]
fn s2_s3_s4_supervisor_follows_the_rules_of_otp() {
    quiet();
    on_all_cores(0..100_000, run_sequence);
}
