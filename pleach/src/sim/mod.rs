//! The simulator: runs a program in virtual time, under a schedule that a seed fixes.
//!
//! Time jumps to the next timer when nothing is ready, and the seed chooses which ready task runs
//! next. So a test takes no real time, thousands of schedules run in a second, and a failing seed
//! fails again.
//!
//! ```
//! use pleach::prelude::*;
//! use pleach::sim::{Sim, explore};
//!
//! explore(0..100, |sim| {
//!     let system = sim.system("shop");
//!     let adder = system.spawn("adder", Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
//!         *sum += n;
//!         Ok::<(), pleach::BoxError>(())
//!     })).unwrap();
//!     sim.run(async {
//!         adder.tell(1).unwrap();
//!         adder.close();
//!         assert_eq!(adder.exited().await, Exit::Closed);
//!     });
//!     assert_eq!(system.counts().handled, 1);
//! });
//! ```

use crate::ActorSystem;
use crate::events::{Event, EventKinds};
use crate::runtime::{Dispatcher, Instant, Runtime};
use crate::scope::{CancelToken, Scope};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The environment variable that makes [`explore`] run one seed only.
pub const SEED_VARIABLE: &str = "PLEACH_SEED";

/// The environment variable that sets how many seeds [`explore`] runs.
pub const SEEDS_VARIABLE: &str = "PLEACH_SEEDS";

/// One simulation: a dispatcher with virtual time and a schedule that a seed fixes.
#[derive(Debug)]
pub struct Sim {
    dispatcher: Dispatcher,
    seed: u64,
}

impl Sim {
    /// Starts a simulation with this seed. Its clock starts at zero.
    pub fn new(seed: u64) -> Self {
        Self { dispatcher: Dispatcher::seeded(seed), seed }
    }

    /// As [`new`](Self::new), and records the [`trace`](Self::trace).
    pub fn recording(seed: u64) -> Self {
        let sim = Self::new(seed);
        sim.dispatcher.record();
        sim
    }

    /// Returns the seed of this simulation.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the runtime of this simulation, for anything that takes one.
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        self.dispatcher.runtime()
    }

    /// Starts a system in this simulation.
    ///
    /// Tokio's own timers and sockets do not work here: code that uses them fails, and a hint is
    /// logged.
    ///
    /// # Panics
    /// If `name` is not a valid path segment.
    pub fn system(&self, name: &str) -> ActorSystem {
        let system = ActorSystem::builder(name).runtime(self.runtime()).build();
        let system = system.expect("a simulated system has a runtime; its name must be a valid path segment");
        system.hub().listen_to(EventKinds::FAILURES, hint_at_tokio);
        system
    }

    /// Returns a cancel token without a parent.
    pub fn token(&self) -> CancelToken {
        CancelToken::root(self.runtime())
    }

    /// Returns a scope without a system.
    pub fn scope(&self) -> Scope {
        Scope::under(&self.token())
    }

    /// Returns the current time on the virtual clock.
    pub fn now(&self) -> Instant {
        self.runtime().now()
    }

    /// Waits for `wait` in virtual time.
    pub async fn sleep(&self, wait: Duration) {
        let runtime = self.runtime();
        runtime.sleep_until(runtime.now() + wait).await;
    }

    /// Yields once, so that other ready tasks may run first, as the seed decides.
    pub async fn yield_now(&self) {
        let mut stepped = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut stepped, true) {
                return std::task::Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
    }

    /// Runs `future`, and everything else, until `future` is ready.
    ///
    /// # Panics
    /// If `future` is not ready, no task is ready and no timer is set: the program would hang.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let done = self.dispatcher.simulate(future);
        done.unwrap_or_else(|stalled| panic!("seed {}: {stalled}", self.seed))
    }

    /// Runs all ready tasks, and those they wake, without advancing time. Returns the number of
    /// polls.
    pub fn settle(&self) -> usize {
        self.dispatcher.drain_ready()
    }

    /// Advances time by `wait` and runs what becomes ready meanwhile.
    pub fn advance(&self, wait: Duration) {
        self.dispatcher.run_until_time(self.now() + wait);
    }

    /// Returns the number of polls so far.
    pub fn polls(&self) -> u64 {
        self.dispatcher.polls()
    }

    /// Returns the number of tasks that have not ended.
    pub fn tasks_alive(&self) -> usize {
        self.dispatcher.tasks_alive()
    }

    /// Adds a value of the program to the trace hash.
    pub fn mix_into_trace(&self, value: u64) {
        self.dispatcher.mix_into_trace(value);
    }

    /// Returns a hash over which task ran when and in which order. The same seed and program give
    /// the same hash in every process.
    pub fn trace_hash(&self) -> u64 {
        self.dispatcher.trace_hash()
    }

    /// Returns one line per poll, if this simulation is [`recording`](Self::recording).
    pub fn trace(&self) -> String {
        let mut text = String::new();
        for step in self.dispatcher.steps() {
            let _ = writeln!(text, "{:?} task {}", step.at, step.task);
        }
        text
    }
}

/// Part of the text of Tokio's panics outside of a Tokio runtime.
const OUTSIDE_TOKIO: &str = "Tokio 1.x runtime";

/// Logs what to use instead when code in the simulator calls Tokio.
fn hint_at_tokio(event: &Event) {
    if let Event::Failed(failure) = event
        && failure.reason().to_string().contains(OUTSIDE_TOKIO)
    {
        let path = failure.path();
        tracing::error!(%path, "Tokio does not run in the simulator: use `cx.sleep`, `cx.timeout` or the `Runtime` in place of its timers");
    }
}

/// Runs `test` in one simulation per seed, and prints how to replay the first seed that fails.
///
/// `PLEACH_SEED=n` in the environment runs only that seed. `PLEACH_SEEDS=n` runs n seeds from the
/// start of the range.
///
/// # Panics
/// With the panic of the first failing seed.
pub fn explore(seeds: Range<u64>, test: impl Fn(&Sim)) {
    let run = |seed| {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| test(&Sim::new(seed)))) {
            eprintln!("seed {seed} failed; replay it alone with {SEED_VARIABLE}={seed}");
            resume_unwind(payload);
        }
    };
    let number_in = |variable: &str| std::env::var_os(variable).map(|text| whole_number(variable, &text));
    match (number_in(SEED_VARIABLE), number_in(SEEDS_VARIABLE)) {
        (Some(seed), _) => run(seed),
        (None, Some(many)) => (seeds.start..seeds.start.saturating_add(many)).for_each(run),
        (None, None) => seeds.for_each(run),
    }
}

fn whole_number(variable: &str, text: &OsStr) -> u64 {
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{variable}={text:?} is not a seed: give a whole number"))
}

/// Returns the first seed for which `test` panics. For tests that plant a fault and expect it to be
/// found.
pub fn first_failing(seeds: Range<u64>, test: impl Fn(&Sim)) -> Option<u64> {
    seeds.into_iter().find(|seed| catch_unwind(AssertUnwindSafe(|| test(&Sim::new(*seed)))).is_err())
}
