//! G1 to G9: random programs of calls on a group. Each step is compared with a reference model of
//! plain queues.
//!
//! Tasks wait at gates that the program opens, so the model knows the completion order. After every
//! call the simulator runs until it is idle, and every waiting call is polled once. A call must be
//! ready exactly when the model says so, with the same answer.

use crate::common::{Gate, INJECTED, poll_once, quiet};
use pleach::prelude::*;
use pleach::sim::Sim;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

/// How a task ends after its gate was opened.
#[derive(Clone, Copy, Debug)]
enum How {
    Value,
    Error,
    Panic,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Go(How),
    GoWith(How),
    TryGo(How),
    /// Opens the gate of the n-th task in flight.
    Finish(usize),
    Next,
    /// Drops the n-th waiting `next`.
    DropNext(usize),
    /// Drops the n-th waiting `go`.
    DropGo(usize),
    Wait,
    DropWait(usize),
    Close,
    Cancel,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    limit: usize,
    buffer: usize,
    fail_fast: bool,
}

/// A result in the model.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Value(u32),
    Error(u32),
    Cancelled,
}

type Task = Pin<Box<dyn Future<Output = Result<u32, String>> + Send>>;

fn task(gate: &Gate, id: u32, how: How) -> Task {
    let open = gate.pass();
    Box::pin(async move {
        open.await;
        match how {
            How::Value => Ok(id),
            How::Error => Err(format!("task {id}")),
            How::Panic => panic!("{INJECTED} task {id}"),
        }
    })
}

fn outcome_of(result: Result<u32, TaskError>) -> Outcome {
    match result {
        Ok(id) => Outcome::Value(id),
        Err(TaskError::Cancelled(_)) => Outcome::Cancelled,
        Err(error) => Outcome::Error(number(&error)),
    }
}

/// The number of the failed task, parsed from its error text.
fn number(error: &TaskError) -> u32 {
    error.to_string().rsplit(' ').next().and_then(|word| word.parse().ok()).expect("errors end with the number of their task")
}

/// The answer of `wait`: the first error, or `None` if the group was cancelled.
type Answer = Result<(), Option<u32>>;

/// The reference: a group as plain queues.
#[derive(Default)]
struct Model {
    closed: bool,
    cancelled: bool,
    in_flight: Vec<(u32, How)>,
    unread: VecDeque<Outcome>,
    errors: Vec<u32>,
    /// Waiting calls by number, in order; below them the calls that are ready.
    readers: VecDeque<usize>,
    entrants: VecDeque<(usize, u32, How)>,
    waiters: Vec<usize>,
    read: BTreeMap<usize, Option<Outcome>>,
    entered: BTreeMap<usize, bool>,
    answered: BTreeMap<usize, Answer>,
}

impl Model {
    fn has_room(&self, rules: Rules) -> bool {
        let unread = self.in_flight.len() + self.unread.len();
        self.in_flight.len() < rules.limit && (unread < rules.buffer || !self.waiters.is_empty())
    }

    fn answer(&self) -> Answer {
        match self.errors.first() {
            Some(first) => Err(Some(*first)),
            None if self.cancelled => Err(None),
            None => Ok(()),
        }
    }

    fn complete(&mut self, result: Outcome) {
        match self.readers.pop_front() {
            Some(reader) => drop(self.read.insert(reader, Some(result))),
            None => self.unread.push_back(result),
        }
    }

    fn finish(&mut self, at: usize, rules: Rules) {
        let (id, how) = self.in_flight.remove(at);
        match how {
            How::Value => self.complete(Outcome::Value(id)),
            How::Error | How::Panic => {
                self.errors.push(id);
                self.complete(Outcome::Error(id));
                if rules.fail_fast {
                    // The task was in flight when it cancelled the group.
                    self.cancelled = true;
                    self.cancel();
                }
            }
        }
        self.answer_waiters();
    }

    /// Answers `wait` calls when no task is in flight, before another task enters.
    fn answer_waiters(&mut self) {
        if self.in_flight.is_empty() {
            let answer = self.answer();
            self.answered.extend(self.waiters.drain(..).map(|call| (call, answer)));
        }
    }

    fn cancel(&mut self) {
        self.cancelled |= !self.closed || !self.in_flight.is_empty();
        self.closed = true;
        (0..std::mem::take(&mut self.in_flight).len()).for_each(|_| self.complete(Outcome::Cancelled));
        self.answer_waiters();
    }

    /// Applies the consequences of the current state.
    fn settle(&mut self, rules: Rules) {
        if self.closed {
            self.entered.extend(self.entrants.drain(..).map(|(call, _, _)| (call, false)));
        }
        while !self.entrants.is_empty() && self.has_room(rules) {
            let (call, id, how) = self.entrants.pop_front().unwrap();
            self.in_flight.push((id, how));
            self.entered.insert(call, true);
        }
        if self.in_flight.is_empty() && self.closed && self.unread.is_empty() {
            self.read.extend(self.readers.drain(..).map(|call| (call, None)));
        }
    }
}

type Waiting<'a, T> = BTreeMap<usize, Pin<Box<dyn Future<Output = T> + 'a>>>;

/// The group, its waiting calls, and the gates of its tasks.
struct Program<'a> {
    sim: &'a Sim,
    group: &'a Group<u32>,
    rules: Rules,
    model: Model,
    gates: BTreeMap<u32, Gate>,
    calls: usize,
    last_task: u32,
    reading: Waiting<'a, Option<Result<u32, TaskError>>>,
    entering: Waiting<'a, bool>,
    waiting: Waiting<'a, Result<(), TaskError>>,
}

impl<'a> Program<'a> {
    fn new_task(&mut self, how: How) -> (u32, Task) {
        self.last_task += 1;
        let gate = Gate::new();
        let task = task(&gate, self.last_task, how);
        self.gates.insert(self.last_task, gate);
        (self.last_task, task)
    }

    fn step(&mut self, op: Op) {
        self.calls += 1;
        let call = self.calls;
        match op {
            Op::Go(how) | Op::GoWith(how) => {
                let (id, task) = self.new_task(how);
                let group = self.group;
                let entering: Pin<Box<dyn Future<Output = bool> + 'a>> = match op {
                    Op::Go(_) => Box::pin(async move { group.go(task).await.is_ok() }),
                    _ => Box::pin(async move { group.go_with(|_| task).await.is_ok() }),
                };
                self.entering.insert(call, entering);
                self.model.entrants.push_back((call, id, how));
            }
            Op::TryGo(how) => {
                let (id, task) = self.new_task(how);
                let has_room = !self.model.closed && self.model.entrants.is_empty() && self.model.has_room(self.rules);
                assert_eq!(self.group.try_go(task).is_ok(), has_room);
                if has_room {
                    self.model.in_flight.push((id, how));
                }
            }
            Op::Finish(at) if !self.model.in_flight.is_empty() => {
                let at = at % self.model.in_flight.len();
                self.gates[&self.model.in_flight[at].0].open();
                self.model.finish(at, self.rules);
            }
            Op::Next => {
                let group = self.group;
                self.reading.insert(call, Box::pin(async move { group.next().await }));
                match self.model.unread.pop_front() {
                    Some(result) => drop(self.model.read.insert(call, Some(result))),
                    None => self.model.readers.push_back(call),
                }
            }
            Op::DropNext(at) if !self.model.readers.is_empty() => {
                let call = self.model.readers.remove(at % self.model.readers.len()).unwrap();
                self.reading.remove(&call);
            }
            Op::DropGo(at) if !self.model.entrants.is_empty() => {
                let (call, _, _) = self.model.entrants.remove(at % self.model.entrants.len()).unwrap();
                self.entering.remove(&call);
            }
            Op::Wait => {
                let group = self.group;
                self.waiting.insert(call, Box::pin(async move { group.wait().await }));
                self.model.waiters.push(call);
                self.model.answer_waiters();
            }
            Op::DropWait(at) if !self.model.waiters.is_empty() => {
                let call = self.model.waiters.remove(at % self.model.waiters.len());
                self.waiting.remove(&call);
            }
            Op::Close => {
                self.group.close();
                self.model.closed = true;
            }
            Op::Cancel => {
                self.group.cancel("enough");
                self.model.cancel();
            }
            Op::Finish(_) | Op::DropNext(_) | Op::DropGo(_) | Op::DropWait(_) => {}
        }
        self.compare();
    }

    /// Polls every waiting call until nothing changes, and compares the group with the model.
    fn compare(&mut self) {
        self.model.settle(self.rules);
        for _ in 0..3 {
            self.sim.settle();
            let Self { model, reading, entering, waiting, .. } = self;
            poll_all(entering, &mut model.entered, |entered| entered);
            poll_all(reading, &mut model.read, |result| result.map(outcome_of));
            poll_all(waiting, &mut model.answered, |answer| {
                answer.map_err(|error| if error.is_cancelled() { None } else { Some(number(&error)) })
            });
        }
        let Self { group, model, .. } = self;
        assert!(
            model.read.is_empty() && model.entered.is_empty() && model.answered.is_empty(),
            "every call that the model expects is ready"
        );
        assert_eq!(group.in_flight(), model.in_flight.len());
        assert_eq!(group.unread(), model.unread.len());
        assert_eq!((group.is_closed(), group.cause().is_some()), (model.closed, model.cancelled));
        assert_eq!(group.errors().errors.iter().map(number).collect::<Vec<_>>(), model.errors);
        let ended = model.closed && model.in_flight.is_empty();
        assert_eq!(group.any_ref().exit().is_some(), ended);
    }
}

/// Polls each call once. A ready call must be ready in the model with the same outcome.
fn poll_all<T, S: PartialEq + std::fmt::Debug>(
    calls: &mut Waiting<'_, T>,
    expected: &mut BTreeMap<usize, S>,
    convert: impl Fn(T) -> S,
) {
    calls.retain(|call, future| match poll_once(future) {
        Poll::Pending => true,
        Poll::Ready(outcome) => {
            assert_eq!(Some(convert(outcome)), expected.remove(call), "call {call}");
            false
        }
    });
}

fn run(seed: u64, rules: Rules, ops: &[Op]) {
    let sim = Sim::new(seed);
    let builder = GroupBuilder::under(&sim.token()).fail_fast(rules.fail_fast).limit(rules.limit).buffer(rules.buffer);
    let group = builder.build().unwrap();
    let mut program = Program {
        sim: &sim,
        group: &group,
        rules,
        model: Model::default(),
        gates: BTreeMap::new(),
        calls: 0,
        last_task: 0,
        reading: BTreeMap::new(),
        entering: BTreeMap::new(),
        waiting: BTreeMap::new(),
    };
    for op in ops {
        program.step(*op);
    }
    drop(program);
    drop(group);
    sim.settle();
    assert_eq!(sim.tasks_alive(), 0);
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let how = || prop_oneof![6 => Just(How::Value), 1 => Just(How::Error), 1 => Just(How::Panic)];
    let op = prop_oneof![
        4 => how().prop_map(Op::Go),
        2 => how().prop_map(Op::GoWith),
        2 => how().prop_map(Op::TryGo),
        8 => (0..8_usize).prop_map(Op::Finish),
        6 => Just(Op::Next),
        2 => (0..8_usize).prop_map(Op::DropNext),
        1 => (0..8_usize).prop_map(Op::DropGo),
        1 => Just(Op::Wait),
        1 => (0..8_usize).prop_map(Op::DropWait),
        1 => Just(Op::Close),
        1 => Just(Op::Cancel),
    ];
    proptest::collection::vec(op, 0..50)
}

fn rules() -> impl Strategy<Value = Rules> {
    let bound = || prop_oneof![Just(usize::MAX), 1..5_usize];
    (bound(), bound(), any::<bool>()).prop_map(|(limit, buffer, fail_fast)| Rules { limit, buffer, fail_fast })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn g1_to_g9_random_programs_agree_with_the_model(seed in 0..1_000_u64, rules in rules(), ops in ops()) {
        quiet();
        run(seed, rules, &ops);
    }
}
