//! Probes: actors that expect messages in virtual time.

use pleach::prelude::*;
use pleach::sim::{FaultKind, Faults, Probe, Sim, explore};
use std::panic::{AssertUnwindSafe, catch_unwind};

const SECOND: Duration = Duration::from_secs(1);

/// Starts an actor that sends 1, 2, 3 .. to the probe, one number each second.
fn counter(system: &ActorSystem, to: &Probe<u32>) -> ActorRef<u32> {
    let to = to.address().clone();
    let props = Props::from_fn_with(
        || (),
        move |_, n: u32, cx| {
            to.tell(n)?;
            cx.send_after(SECOND, n + 1);
            Ok::<(), pleach::BoxError>(())
        },
    );
    system.spawn("counter", props).unwrap()
}

/// Returns the text of the panic of an expectation.
fn fails(sim: &Sim, expectation: impl Future<Output = ()>) -> String {
    let payload = catch_unwind(AssertUnwindSafe(|| sim.run(expectation))).unwrap_err();
    *payload.downcast::<String>().unwrap()
}

#[test]
fn d5_probe_expects_messages_in_virtual_time() {
    explore(0..100, |sim| {
        // A probe gets no faults.
        sim.inject(Faults::from(FaultKind::CrashBefore.rate(1.0).on("/user/probe")));
        let system = sim.system("shop");
        let probe = sim.probe::<u32>(&system, "probe");
        counter(&system, &probe).tell(1).unwrap();
        sim.run(async {
            probe.expect(1).await;
            probe.expect_none_for(SECOND).await;
            probe.expect_within(Duration::ZERO, 2).await;
            assert_eq!(probe.expect_match(SECOND, |n| *n > 2).await, 3);
            assert_eq!(probe.next_within(SECOND).await, 4);
            sim.sleep(3 * SECOND).await;
        });
        sim.settle();
        assert_eq!(probe.take(), [5, 6, 7]);
        assert!(sim.injected().is_empty());
    });
}

#[test]
fn d5_failed_expectation_says_where_and_what_came() {
    let sim = Sim::new(1);
    let system = sim.system("shop");
    let probe = sim.probe::<u32>(&system, "probe");
    let counter = counter(&system, &probe);
    let none = fails(&sim, probe.expect_within(2 * SECOND, 7));
    assert!(none.contains("probes.rs:") && none.ends_with("/user/probe got no message within 2s, expected 7"), "{none}");
    counter.tell(1).unwrap();
    let other = fails(&sim, probe.expect(9));
    assert!(other.ends_with("/user/probe got 1, expected 9"), "{other}");
    let unmatched = fails(&sim, async { assert!(probe.expect_match(SECOND, |n| *n > 5).await > 5) });
    assert!(unmatched.ends_with("/user/probe got 2, which does not match"), "{unmatched}");
    let unexpected = fails(&sim, probe.expect_none_for(2 * SECOND));
    assert!(unexpected.ends_with("/user/probe got 3, expected no message for 2s"), "{unexpected}");
}

#[test]
fn d5_virtual_time_runs_until_idle_or_a_limit() {
    explore(0..50, |sim| {
        let system = sim.system("shop");
        let probe = sim.probe::<u32>(&system, "probe");
        let to = probe.address().clone();
        let once = Props::from_fn_with(
            || (),
            move |_, n: u32, cx| {
                to.tell(n)?;
                if n < 3 {
                    cx.send_after(10 * SECOND, n + 1);
                }
                Ok::<(), pleach::BoxError>(())
            },
        );
        system.spawn("once", once).unwrap().tell(1).unwrap();
        assert!(!sim.run_until_idle(15 * SECOND), "a timer is left");
        assert_eq!((probe.take(), sim.now().since_start()), (vec![1, 2], 10 * SECOND));
        assert!(sim.run_until_idle(3_600 * SECOND));
        assert_eq!((probe.take(), sim.now().since_start()), (vec![3], 20 * SECOND));
    });
}

#[test]
fn d5_probe_that_is_not_read_is_bounded() {
    let sim = Sim::new(1);
    let system = sim.system("shop");
    let probe = sim.probe::<u32>(&system, "probe");
    for n in 0..=u32::try_from(pleach::sim::PROBE_CAPACITY).unwrap() {
        probe.address().tell(n).unwrap();
    }
    sim.settle();
    assert_eq!((system.counts().handled, system.counts().failed), (pleach::sim::PROBE_CAPACITY as u64, 1));
}
