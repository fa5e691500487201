//! Runs a test in many simulations, and makes what it finds small: one seed and few faults.

use crate::scope::Outcome;
use crate::sim::faults::injected::{FaultId, list, parse_list};
use crate::sim::panics::{Watch, watched};
use crate::sim::shrink::shrink;
use crate::sim::{Faults, InjectedFault, Sim};
use std::any::Any;
use std::ffi::OsStr;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The environment variable that makes [`explore`] run one seed only.
pub const SEED_VARIABLE: &str = "PLEACH_SEED";

/// The environment variable that sets how many seeds [`explore`] runs.
pub const SEEDS_VARIABLE: &str = "PLEACH_SEEDS";

/// The environment variable that makes [`explore`] inject exactly these faults. Empty: none.
pub const FAULTS_VARIABLE: &str = "PLEACH_FAULTS";

/// How many runs [`explore`] uses at most to find a small set of faults that still fails.
pub const SHRINK_RUNS_MAX: usize = 256;

/// How long [`explore`] looks for a small set of faults at most, in real time: 60 s. A run that has
/// begun is not interrupted.
pub const SHRINK_TIME_MAX: Duration = Duration::from_secs(60);

/// A test that runs once per seed, with faults. [`explore`] is the short form without options.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::sim::{Exploration, FaultKind};
///
/// let faults = [FaultKind::HandlerFails.rate(0.2), FaultKind::CrashAfter.rate(0.1)];
/// Exploration::new(0..100).faults(faults).run(|sim| {
///     let system = sim.system("shop");
///     let till = system.spawn("till", Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(()))).unwrap();
///     (0..5).for_each(|cents| till.tell(cents).unwrap());
///     sim.settle();
///     pleach::sim::assert_conserved(&system);
/// });
/// ```
#[derive(Clone, Debug)]
#[must_use = "an exploration runs the test in `run`"]
pub struct Exploration {
    /// Inclusive, because the largest seed is a seed too.
    seeds: RangeInclusive<u64>,
    faults: Faults,
}

impl Exploration {
    /// Explores these seeds, without any faults.
    pub fn new(seeds: Range<u64>) -> Self {
        // An empty range stays empty.
        let seeds = if seeds.is_empty() { RangeInclusive::new(1, 0) } else { seeds.start..=seeds.end - 1 };
        Self { seeds, faults: Faults::none() }
    }

    /// Runs the test with this seed only.
    pub fn one(seed: u64) -> Self {
        Self { seeds: seed..=seed, faults: Faults::none() }
    }

    /// Injects faults into each simulation, before the test begins; see
    /// [`Sim::inject`](crate::sim::Sim::inject). Default: none.
    pub fn faults(mut self, faults: impl Into<Faults>) -> Self {
        self.faults = faults.into();
        self
    }

    /// Runs `test` in one simulation per seed. At the first seed that fails, it looks for a small
    /// set of faults that still fails, and prints how to replay it.
    ///
    /// | in the environment | effect |
    /// |---|---|
    /// | `PLEACH_SEED=n` | runs only this seed |
    /// | `PLEACH_SEEDS=n` | runs n seeds from the start of the range |
    /// | `PLEACH_FAULTS=list` | injects exactly these faults |
    ///
    /// # Panics
    /// With the panic of the first failing seed, or with the error that the test returned.
    pub fn run<O: Outcome>(self, test: impl Fn(&Sim) -> O) {
        let asked = std::env::var_os(FAULTS_VARIABLE).map(|text| faults_in(&text));
        if let Some((found, payload)) = self.find(self.seeds_to_run(), asked.as_deref(), Watch::Record, &test) {
            eprintln!("{found}");
            resume_unwind(payload);
        }
    }

    /// Returns the first failure, or `None` if no seed fails. Nothing is printed. For tests that
    /// plant a bug and expect it to be found.
    pub fn first_failure<O: Outcome>(self, test: impl Fn(&Sim) -> O) -> Option<FoundFailure> {
        self.find(self.seeds.clone(), None, Watch::Quiet, &test).map(|(found, _)| found)
    }

    fn seeds_to_run(&self) -> RangeInclusive<u64> {
        let number_in = |variable: &str| std::env::var_os(variable).map(|text| whole_number(variable, &text));
        let start = *self.seeds.start();
        match (number_in(SEED_VARIABLE), number_in(SEEDS_VARIABLE)) {
            (Some(seed), _) => seed..=seed,
            (None, Some(0)) => RangeInclusive::new(1, 0),
            (None, Some(many)) => start..=start.saturating_add(many - 1),
            (None, None) => self.seeds.clone(),
        }
    }

    /// Runs seeds until one fails, and makes that failure small, unless its faults were given.
    fn find<O: Outcome>(
        &self,
        seeds: RangeInclusive<u64>,
        asked: Option<&[FaultId]>,
        watch: Watch,
        test: &impl Fn(&Sim) -> O,
    ) -> Option<(FoundFailure, Payload)> {
        for seed in seeds {
            let Some(mut failed) = self.run_once(seed, asked, watch, test) else { continue };
            let injected = std::mem::take(&mut failed.injected);
            let (mut needed, mut runs) = (injected.clone(), 0);
            if asked.is_none() {
                if watch == Watch::Record && !injected.is_empty() {
                    eprintln!("seed {seed} failed; looking for a small set of its {} faults", injected.len());
                }
                let began = Instant::now();
                let may_run = |runs| runs < SHRINK_RUNS_MAX && began.elapsed() < SHRINK_TIME_MAX;
                (needed, runs) = shrink(injected.clone(), may_run, |set| {
                    let ids: Vec<FaultId> = set.iter().map(InjectedFault::id).collect();
                    let again = self.run_once(seed, Some(&ids), Watch::Quiet, test);
                    let same = again.filter(|again| again.origin == failed.origin);
                    // The last run that is kept is the one with the needed faults.
                    same.map(|again| failed = again).is_some()
                });
            }
            let reason = text_of(&*failed.payload);
            let faults = self.faults.clone();
            return Some((FoundFailure { seed, reason, injected, needed, runs, faults }, failed.payload));
        }
        None
    }

    /// Runs the test once. Returns what failed, if it did.
    fn run_once<O: Outcome>(
        &self,
        seed: u64,
        replayed: Option<&[FaultId]>,
        watch: Watch,
        test: &impl Fn(&Sim) -> O,
    ) -> Option<FailedRun> {
        let sim = Sim::replaying(seed, replayed.map(<[FaultId]>::to_vec));
        let injector = Arc::clone(&sim.simulation.injector);
        sim.inject(self.faults.clone());
        let mut returned = None;
        let run = || {
            let sim = sim;
            if let Some(error) = test(&sim).into_error() {
                let text = error.to_string();
                returned = Some(text.clone());
                panic!("the test returned an error: {text}");
            }
        };
        let (ended, location) = watched(watch, || catch_unwind(AssertUnwindSafe(run)));
        let payload = ended.err()?;
        let origin = returned.map_or(FailureOrigin::Panic(location), FailureOrigin::Error);
        Some(FailedRun { payload, origin, injected: injector.injected() })
    }
}

type Payload = Box<dyn Any + Send>;

/// One run of a test that failed.
struct FailedRun {
    payload: Payload,
    /// A smaller set of faults must fail with the same origin.
    origin: FailureOrigin,
    injected: Vec<InjectedFault>,
}

/// What tells one failure of a test from another.
#[derive(PartialEq, Eq)]
enum FailureOrigin {
    /// Where it panicked. The text may differ, because it often holds values.
    Panic(Option<String>),
    /// The text of the error that it returned.
    Error(String),
}

/// A seed that fails, and the faults that make it fail. `Display` says how to replay it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FoundFailure {
    /// The seed of the first simulation that failed.
    pub seed: u64,
    /// The text of the panic, or the error that the test returned, in the run with the needed
    /// faults.
    pub reason: String,
    /// All faults that were injected before it.
    pub injected: Vec<InjectedFault>,
    /// Faults that are enough for the failure. None of them can be left out alone, unless the
    /// search ended early, by [`SHRINK_RUNS_MAX`] or [`SHRINK_TIME_MAX`].
    pub needed: Vec<InjectedFault>,
    /// How many runs it took to find them.
    pub runs: usize,
    faults: Faults,
}

impl FoundFailure {
    /// Returns the needed faults as the value of `PLEACH_FAULTS`.
    pub fn faults_text(&self) -> String {
        list(&self.needed)
    }

    /// Runs `test` with this seed and exactly the needed faults. Returns whether it fails. Nothing
    /// is printed.
    pub fn replay<O: Outcome>(&self, test: impl Fn(&Sim) -> O) -> bool {
        let ids: Vec<FaultId> = self.needed.iter().map(InjectedFault::id).collect();
        Exploration::new(0..0).faults(self.faults.clone()).run_once(self.seed, Some(&ids), Watch::Quiet, &test).is_some()
    }
}

impl fmt::Display for FoundFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, injected, needed, runs, .. } = self;
        if injected.is_empty() {
            return write!(f, "seed {seed} failed; replay it alone with {SEED_VARIABLE}={seed}");
        }
        let plural = if injected.len() == 1 { "fault" } else { "faults" };
        write!(f, "seed {seed} failed with {} injected {plural}", injected.len())?;
        match needed.len() {
            _ if *runs == 0 => write!(f, ", as asked for")?,
            0 => write!(f, "; it fails without them too")?,
            1 => write!(f, "; one is enough (found in {runs} runs)")?,
            count => write!(f, "; {count} of them are enough (found in {runs} runs)")?,
        }
        for fault in needed {
            write!(f, "\n  {fault} at {:?}", fault.at)?;
        }
        write!(f, "\nreplay it alone with {SEED_VARIABLE}={seed} {FAULTS_VARIABLE}='{}'", self.faults_text())?;
        // The test harness names the thread after the test.
        match std::thread::current().name().filter(|name| *name != "main") {
            Some(test) => write!(f, " cargo test {test}"),
            None => Ok(()),
        }
    }
}

/// Runs `test` in one simulation per seed, and prints how to replay the first seed that fails.
///
/// Faults that the test asks for with [`Sim::inject`] are made few before they are printed.
/// `PLEACH_SEED=n` in the environment runs only that seed. `PLEACH_SEEDS=n` runs n seeds from the
/// start of the range. [`Exploration`] has options.
///
/// # Panics
/// With the panic of the first failing seed.
pub fn explore(seeds: Range<u64>, test: impl Fn(&Sim)) {
    Exploration::new(seeds).run(test);
}

fn whole_number(variable: &str, text: &OsStr) -> u64 {
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{variable}={text:?} is not a seed: give a whole number"))
}

fn faults_in(text: &OsStr) -> Vec<FaultId> {
    let faults = text.to_str().ok_or_else(|| "it is not UTF-8".to_string()).and_then(parse_list);
    faults.unwrap_or_else(|error| panic!("{FAULTS_VARIABLE} cannot be read: {error}"))
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic whose payload is no text").to_string()
}

/// Returns the first seed for which `test` panics. For tests that plant a bug in the order of
/// events and expect it to be found; see also [`Exploration::first_failure`].
pub fn first_failing(seeds: Range<u64>, test: impl Fn(&Sim)) -> Option<u64> {
    seeds.into_iter().find(|seed| catch_unwind(AssertUnwindSafe(|| test(&Sim::new(*seed)))).is_err())
}
