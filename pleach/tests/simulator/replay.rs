//! What an exploration prints, and how the environment replays it.

use pleach::prelude::*;
use pleach::sim::{Exploration, FaultKind, Faults, Sim, explore};
use std::process::Command;

/// Selects the failing program in a child process.
const PLANTED: &str = "PLEACH_TEST_PLANTED";

/// Handles three messages, and fails if the third one did not arrive. The seed also injects faults
/// that do not matter.
fn program(sim: &Sim) {
    let third = FaultKind::HandlerFails.nth(3).on("/user/till");
    sim.inject(Faults::all(0.2).with(third));
    let system = sim.system("shop");
    let noise = system.supervisor("noise", OneForOne::new().restart_limit(100, Duration::from_secs(1))).unwrap();
    let quiet = || Props::from_fn(|| (), |_: &mut (), _: u32| Ok::<(), pleach::BoxError>(()));
    let noise = noise.spawn("noise", quiet()).unwrap();
    let till = system.spawn("till", quiet()).unwrap();
    for n in 0..3 {
        (0..5).for_each(|n| noise.tell(n).unwrap());
        till.tell(n).unwrap();
    }
    sim.settle();
    assert!(till.counts().failed == 0 || system.failures() == 0, "the till lost a message");
}

#[test]
fn d5_child_of_the_replay_test() {
    if std::env::var_os(PLANTED).is_some() {
        explore(0..1_000, program);
    }
}

/// Runs the test above in a process of its own, and returns whether it passes and what it prints.
fn child(variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "replay::d5_child_of_the_replay_test", "--nocapture"]).env(PLANTED, "1");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn d5_failure_prints_a_line_that_replays_it() {
    let (passes, printed) = child(&[]);
    assert!(!passes);
    let seed = printed.lines().find_map(|line| line.strip_prefix("replay it alone with PLEACH_SEED=")).expect(&printed);
    let (seed, rest) = seed.split_once(" PLEACH_FAULTS='").expect(&printed);
    let (faults, command) = rest.split_once('\'').expect(&printed);
    assert_eq!(command, " cargo test replay::d5_child_of_the_replay_test");
    assert_eq!(faults.split(',').count(), 1, "{printed}");
    assert!(faults.contains(":/user/till#"), "{printed}");
    assert!(printed.contains("; one is enough (found in "), "{printed}");
    assert_eq!(printed.matches("the till lost a message").count(), 1, "the runs of the search print nothing: {printed}");

    let (passes, again) = child(&[("PLEACH_SEED", seed), ("PLEACH_FAULTS", faults)]);
    assert!(!passes && again.contains("the till lost a message"), "{again}");
    assert!(again.contains(&format!("seed {seed} failed with 1 injected fault, as asked for\n")), "{again}");

    let (passes, printed) = child(&[("PLEACH_SEED", seed), ("PLEACH_FAULTS", "")]);
    assert!(passes, "{printed}");
    let (passes, printed) = child(&[("PLEACH_FAULTS", "nonsense")]);
    assert!(!passes && printed.contains("PLEACH_FAULTS cannot be read: \"nonsense\" is no fault"), "{printed}");
}

#[test]
fn d5_failure_without_faults_prints_only_its_seed() {
    let found = Exploration::new(3..10).first_failure(|sim| assert!(sim.seed() < 5)).unwrap();
    assert_eq!(found.to_string(), "seed 5 failed; replay it alone with PLEACH_SEED=5");
}

#[test]
fn d5_failure_that_needs_no_fault_says_so() {
    let found = Exploration::new(0..100).first_failure(|sim| {
        sim.inject(FaultKind::IoLate.rate(1.0));
        sim.run(sim.io("disk", async {}));
        assert!(sim.seed() > 100, "it fails anyway");
    });
    let found = found.unwrap();
    assert_eq!((found.injected.len(), found.needed.len(), found.runs), (1, 0, 1));
    assert!(found.to_string().contains("it fails without them too"), "{found}");
    assert_eq!(found.reason, "it fails anyway");
}

#[test]
fn d5_two_faults_that_only_fail_together_are_both_named() {
    let together = |sim: &Sim| {
        sim.inject([FaultKind::IoLate.rate(0.3), FaultKind::WakeLost.rate(0.0)]);
        for _ in 0..10 {
            sim.run(sim.io("disk", async {}));
        }
        let late: Vec<u64> = sim.injected().iter().map(|fault| fault.number).collect();
        assert!(!(late.contains(&2) && late.contains(&7)));
    };
    let found = Exploration::new(0..1_000).first_failure(together).unwrap();
    assert_eq!(found.faults_text(), "io-late:disk#2,io-late:disk#7");
    assert!(found.runs < 40, "{found}");
}

#[test]
fn d5_smaller_set_must_fail_at_the_same_place() {
    // With both faults the first check fails; with one of them the second one does.
    let test = |sim: &Sim| {
        sim.inject(FaultKind::IoLate.rate(1.0));
        sim.run(sim.io("disk", async {}));
        sim.run(sim.io("disk", async {}));
        let count = sim.injected().len();
        assert!(count != 2, "both");
        assert!(count != 1, "one");
    };
    let found = Exploration::new(0..1).first_failure(test).unwrap();
    assert_eq!((found.reason.as_str(), found.needed.len()), ("both", 2));
}

#[test]
fn d5_returned_error_fails_the_test() {
    let found = Exploration::new(0..1).first_failure(|_| Err::<(), _>("no money")).unwrap();
    assert_eq!(found.reason, "the test returned an error: no money");
}

/// Reads the disk twice, late both times. Returns how many faults were injected, at most two.
fn two_late_reads(sim: &Sim) -> usize {
    sim.inject(FaultKind::IoLate.rate(1.0));
    (0..2).for_each(|_| sim.run(sim.io("disk", async {})));
    sim.injected().len()
}

#[test]
fn d5_smaller_set_must_return_the_same_error() {
    let test = |sim: &Sim| match two_late_reads(sim) {
        2 => Err("both"),
        1 => Err("one"),
        _ => Ok(()),
    };
    let found = Exploration::new(0..1).first_failure(test).unwrap();
    assert_eq!((found.reason.as_str(), found.needed.len()), ("the test returned an error: both", 2));
}

#[test]
fn d5_smaller_set_must_fail_at_the_same_expectation() {
    let test = |sim: &Sim| {
        let system = sim.system("shop");
        let mail = sim.probe::<usize>(&system, "mail");
        let count = two_late_reads(sim);
        mail.address().tell(count).unwrap();
        sim.run(async {
            if count == 2 {
                mail.expect(0).await;
            }
            mail.expect(0).await;
        });
    };
    let found = Exploration::new(0..1).first_failure(test).unwrap();
    assert!(found.reason.ends_with("/mail got 2, expected 0"), "{}", found.reason);
    assert_eq!(found.needed.len(), 2);
}

#[test]
fn d5_reason_is_that_of_the_needed_faults() {
    let test = |sim: &Sim| {
        let count = two_late_reads(sim);
        assert!(count == 0, "{count} late");
    };
    let found = Exploration::new(0..1).first_failure(test).unwrap();
    assert_eq!((found.reason.as_str(), found.needed.len()), ("1 late", 1));
}
