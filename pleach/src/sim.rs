//! The simulator: a whole program in virtual time, under a schedule that a seed fixes.
//!
//! Time jumps to the next timer when nothing is ready, and what runs next is chosen by the seed, so a test takes no real time, thousands
//! of schedules fit into a second, and a seed that fails fails again.
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

use crate::{ActorSystem, CancelToken, Dispatcher, Event, EventKinds, Instant, Runtime, Scope};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The variable that makes [`explore`] run one seed only.
pub const SEED_VARIABLE: &str = "PLEACH_SEED";

/// The variable that makes [`explore`] run so many seeds, in place of as many as the test says.
pub const SEEDS_VARIABLE: &str = "PLEACH_SEEDS";

/// One simulated world.
#[derive(Debug)]
pub struct Sim {
    dispatcher: Dispatcher,
    seed: u64,
}

impl Sim {
    /// A world whose schedule `seed` fixes. Its clock begins at zero.
    pub fn new(seed: u64) -> Self {
        Self { dispatcher: Dispatcher::seeded(seed), seed }
    }

    /// As [`new`](Self::new), keeping the whole [`trace`](Self::trace).
    pub fn recording(seed: u64) -> Self {
        let sim = Self::new(seed);
        sim.dispatcher.record();
        sim
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The runtime, for anything that takes one.
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        self.dispatcher.runtime()
    }

    /// A system in this world. Tokio's own timers and sockets do not work in it: what uses them fails, and a hint is logged.
    ///
    /// # Panics
    /// If `name` cannot stand in a path.
    pub fn system(&self, name: &str) -> ActorSystem {
        let system = ActorSystem::builder(name).runtime(self.runtime()).build();
        let system = system.expect("a simulated system needs only a good name");
        system.hub().listen_to(EventKinds::FAILURES, hint_at_tokio);
        system
    }

    /// A token with nothing above it.
    pub fn token(&self) -> CancelToken {
        CancelToken::root(self.runtime())
    }

    /// A scope that stands alone.
    pub fn scope(&self) -> Scope {
        Scope::under(&self.token())
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.runtime().now()
    }

    /// Sleeps in virtual time.
    pub async fn sleep(&self, wait: Duration) {
        let runtime = self.runtime();
        runtime.sleep_until(runtime.now() + wait).await;
    }

    /// Lets whatever else is ready run before this goes on, as the seed decides.
    pub async fn step_aside(&self) {
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

    /// Runs `future`, and everything else, until `future` is done.
    ///
    /// # Panics
    /// If nothing is ready, no timer is set and the future is not done: it could only hang.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let done = self.dispatcher.simulate(future);
        done.unwrap_or_else(|stalled| panic!("seed {}: {stalled}", self.seed))
    }

    /// Runs everything that is ready, and what that makes ready, without letting time pass. How many polls that took.
    pub fn settle(&self) -> usize {
        self.dispatcher.drain_ready()
    }

    /// Lets time pass, running whatever it brings.
    pub fn advance(&self, wait: Duration) {
        self.dispatcher.run_until_time(self.now() + wait);
    }

    /// How many polls there were so far.
    pub fn polls(&self) -> u64 {
        self.dispatcher.polls()
    }

    /// How many tasks have not ended.
    pub fn tasks_alive(&self) -> usize {
        self.dispatcher.tasks_alive()
    }

    /// Mixes something the program did into the trace hash.
    pub fn note(&self, what: u64) {
        self.dispatcher.note(what);
    }

    /// A hash over what ran, in which order and at what time. One seed and one program give one hash, in every process.
    pub fn trace_hash(&self) -> u64 {
        self.dispatcher.trace_hash()
    }

    /// What ran, a line a poll, if this world is [`recording`](Self::recording).
    pub fn trace(&self) -> String {
        let mut text = String::new();
        for step in self.dispatcher.steps() {
            let _ = writeln!(text, "{:?} task {}", step.at, step.task);
        }
        text
    }
}

/// What Tokio's panics say where none of its runtimes is.
const OUTSIDE_TOKIO: &str = "Tokio 1.x runtime";

/// Says what to use instead to whoever calls Tokio in the simulator.
fn hint_at_tokio(event: &Event) {
    if let Event::Failed(failure) = event
        && failure.reason().to_string().contains(OUTSIDE_TOKIO)
    {
        let path = failure.path();
        tracing::error!(%path, "Tokio does not run in the simulator: use `cx.sleep`, `cx.timeout` or the `Runtime` in place of its timers");
    }
}

/// Runs `test` in one world per seed, and names the first seed that fails and how to replay it.
///
/// With `PLEACH_SEED=n` in the environment only that seed is run, with `PLEACH_SEEDS=n` the first n from the start of the range on.
///
/// # Panics
/// With the first failing seed, if one fails.
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
    number.unwrap_or_else(|| panic!("{variable}={text:?} is no seed: give a whole number"))
}

/// The first seed for which `test` panics, `None` if it never does. For tests that plant a fault and want it found.
pub fn first_failing(seeds: Range<u64>, test: impl Fn(&Sim)) -> Option<u64> {
    seeds.into_iter().find(|seed| catch_unwind(AssertUnwindSafe(|| test(&Sim::new(*seed)))).is_err())
}
