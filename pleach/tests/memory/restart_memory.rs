//! S8: ten thousand children that fail repeatedly. No failure is lost, and memory stays flat.

use crate::{HARNESS_BYTES_MAX, exclusive, kept};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::supervise::AlwaysRestart;

const CHILDREN: u64 = 10_000;
const FAILURES_PER_ROUND: u64 = 10;

#[test]
fn s8_many_restarts_keep_memory_flat_and_lose_no_failure() {
    let _exclusive = exclusive();
    let sim = Sim::new(7);
    let system = sim.system("storm");
    let supervisor = system.supervisor("supervisor", AlwaysRestart).unwrap();
    let failing = || Props::from_fn(|| (), |(): &mut (), (): ()| Err::<(), BoxError>("failed again".into()));
    let children: Vec<_> = (0..CHILDREN).map(|_| supervisor.spawn_unnamed(failing()).unwrap()).collect();
    for round in 1..=5 {
        let kept = kept(|| {
            for _ in 0..FAILURES_PER_ROUND {
                children.iter().for_each(|child| child.tell(()).unwrap());
            }
            sim.settle();
        });
        let failures = round * CHILDREN * FAILURES_PER_ROUND;
        assert_eq!(system.failures() as u64, failures);
        let counts = system.counts();
        assert_eq!((counts.failed, counts.accepted), (failures, failures));
        // Queues grow to their final size in the first round.
        assert!(round == 1 || kept <= HARNESS_BYTES_MAX, "{kept} bytes more after round {round}");
    }
    assert_eq!(sim.tasks_alive() as u64, CHILDREN);
}
