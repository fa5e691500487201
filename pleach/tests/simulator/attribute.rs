//! `#[pleach::test]`: a test that runs in the simulator, once per seed.

use pleach::prelude::*;
use pleach::sim::{FaultKind, Faults, Sim};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Counts its calls, and checks that the seeds come in order.
fn count(calls: &AtomicU64, sim: &Sim, first: u64) -> u64 {
    let before = calls.fetch_add(1, SeqCst);
    assert_eq!(sim.seed(), first + before);
    before + 1
}

static DEFAULT: AtomicU64 = AtomicU64::new(0);

#[pleach::test]
fn d5_attribute_runs_a_hundred_seeds(sim: &Sim) {
    assert!(count(&DEFAULT, sim, 0) <= 100);
}

static MANY: AtomicU64 = AtomicU64::new(0);

#[pleach::test(seeds = 1_000, faults = FaultKind::HandlerFails.nth(1))]
async fn d5_attribute_runs_async_tests_with_faults(sim: &Sim) -> Result<(), pleach::Error> {
    assert!(count(&MANY, sim, 0) <= 1_000);
    let system = sim.system("shop");
    let till = system.spawn("till", Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(())))?;
    till.send(1).await?;
    till.send(2).await?;
    till.close();
    till.exited().await;
    assert_eq!((system.counts().handled, system.counts().failed), (1, 1));
    Ok(())
}

static FEW: AtomicU64 = AtomicU64::new(0);
const FEW_SEEDS: std::ops::Range<u64> = 40..45;

#[pleach::test(seeds = FEW_SEEDS)]
async fn d5_attribute_takes_a_range_and_passes_the_simulation(sim: Sim) {
    assert!(count(&FEW, &sim, 40) <= 5);
    sim.sleep(Duration::from_secs(3_600)).await;
    assert_eq!(sim.now().since_start(), Duration::from_secs(3_600));
}

#[pleach::test(seed = 7, faults = Faults::none())]
pub(crate) fn d5_attribute_takes_one_seed(sim: Sim) {
    assert_eq!(sim.seed(), 7);
}

#[pleach::test(seeds = 9)]
#[should_panic(expected = "the test returned an error: seed 3")]
fn d5_attribute_fails_with_the_error_of_the_test(sim: &Sim) -> Result<(), String> {
    if sim.seed() == 3 { Err("seed 3".to_string()) } else { Ok(()) }
}

#[pleach::test(faults = 1.0)]
#[should_panic(expected = "a fault of the rate")]
fn d5_attribute_takes_a_rate(sim: &Sim) {
    let done = sim.scope().launch(sim.io("disk", async {}));
    sim.advance(Duration::from_secs(60));
    assert!(done.is_ok() && sim.injected().is_empty(), "a fault of the rate");
}
