//! The checks can fail: each faulty store is detected in a scene that a sound store passes.
//!
//! Of the five faults that the checks must find, `synchronous=OFF` is missing here: data of a dead
//! process survives whether or not it was synced, so only a power cut shows that fault. See
//! `stores/power.rs` in `graph/tests`.

use crate::graph::Variant;
use crate::ledger_client::lock;
use crate::mutant::Mutant;
use crate::report::Spec;
use crate::store_address::StoreAddress;
use crate::store_under_test::StoreUnderTest;
use std::time::Duration;

const PAUSE_MAX: Duration = Duration::from_secs(20);

/// Runs each mutant that this store can have, and a sound store in the same scene. Returns the
/// findings.
pub fn run(tested: &StoreUnderTest) -> Result<Vec<String>, String> {
    let mut results = Vec::new();
    let die = |class: &str, pass: u64| (class.to_string(), pass);
    for (mutant, kill_point, rule) in [
        (Mutant::AdvanceBeforeCommit, die("node start", 6), "ran ahead"),
        (Mutant::AcknowledgeBeforeCommit, die("acknowledged", 6), "lost"),
        (Mutant::AcknowledgeBeforeCommit, die("once after", 1), "twice"),
    ] {
        for mutant in [None, Some(mutant)] {
            let run = format!("early, {}, {mutant:?}", kill_point.0);
            a_death(tested, &run, &Spec { dies_at: Some(kill_point.clone()), mutant, ..tested.spec(&run) })?;
            tested.case(&run, Variant::Full, &[], None)?;
            results.push(verdict(tested, &run, mutant, rule)?);
        }
    }
    for mutant in [None, Some(Mutant::Forgetful)] {
        let run = format!("forgetful, {mutant:?}");
        a_death(tested, &run, &Spec { dies_at: Some(die("commit after", 3)), ..tested.spec(&run) })?;
        // It continues although it should not, until its first commit is rejected.
        let mut driver = tested.start(&Spec { mutant, ..tested.spec(&run) })?;
        let set = run.clone();
        tested.ledger.wait(PAUSE_MAX, move |book| book.assignments.runs[&set].endings > 0);
        driver.kill();
        tested.check_after_death(driver.pid);
        tested.case(&run, Variant::Full, &[], None)?;
        results.push(verdict(tested, &run, mutant, "repeated")?);
    }
    let mut scenes = vec![(None, "commit before"), (Some(Mutant::NoEpochCheck), "commit before")];
    if matches!(tested.address, StoreAddress::Postgres(_)) {
        scenes.push((Some(Mutant::ForKeyShare), "commit inside"));
    }
    for (mutant, class) in scenes {
        let run = format!("stale, {mutant:?}");
        a_stale_commit(tested, &run, mutant, class)?;
        results.push(verdict(tested, &run, mutant, "fence")?);
    }
    Ok(results)
}

/// A driver starts a run and dies. Others continue, since a faulty store may never reach an end.
fn a_death(tested: &StoreUnderTest, run: &str, spec: &Spec) -> Result<(), String> {
    tested.ledger.with(|book| book.assignments.add_single(run, Variant::Full));
    let mut driver = tested.start(spec)?;
    driver.wait(PAUSE_MAX)?;
    tested.check_after_death(driver.pid);
    Ok(())
}

/// A driver is paused during a commit, another one claims its run and dies, and then the first
/// continues.
fn a_stale_commit(tested: &StoreUnderTest, run: &str, mutant: Option<Mutant>, class: &str) -> Result<(), String> {
    // No lease expires here: the run is taken by force.
    let lease_millis = 60_000;
    let spec = Spec { mutant, lease_millis, ..tested.spec(run) };
    tested.ledger.with(|book| book.assignments.add_single(run, Variant::Full));
    let mut stale = tested.start(&Spec { pauses_at: Some((class.into(), 5)), ..spec.clone() })?;
    if !tested.ledger.wait_for_pause(stale.pid, PAUSE_MAX) {
        return Err(format!("{run}: the driver did not reach {class:?}"));
    }
    tested.ledger.with(|book| book.assignments.force_next(run));
    let mut next = tested.start(&Spec { dies_at: Some(("claim after".into(), 1)), ..spec })?;
    next.wait(PAUSE_MAX)?;
    tested.check_after_death(next.pid);
    tested.ledger.continue_paused(stale.pid);
    let set = run.to_string();
    if !tested.ledger.wait(PAUSE_MAX, move |book| book.assignments.runs[&set].endings > 0) {
        return Err(format!("{run}: the paused driver did not end: {}", tested.describe(run)));
    }
    stale.kill();
    tested.check_after_death(stale.pid);
    tested.ledger.with(|book| book.assignments.force_next(run));
    tested.case(run, Variant::Full, &[], None).map(drop)
}

/// Checks that a mutant was found by its rule, and that a sound store breaks no rule.
fn verdict(tested: &StoreUnderTest, run: &str, mutant: Option<Mutant>, rule: &str) -> Result<String, String> {
    let mut checker = lock(&tested.checker);
    let (found, others) = std::mem::take(&mut checker.violations).into_iter().partition(|violation| violation.run == run);
    checker.violations = others;
    match (mutant, found.iter().find(|violation| violation.rule == rule)) {
        (None, None) if found.is_empty() => Ok(format!("{run}: no violation in a sound store")),
        (None, _) => Err(format!("{run}: violation in a sound store: {}", found[0])),
        (Some(_), Some(found)) => Ok(format!("{run}: found: {found}")),
        (Some(_), None) => Err(format!("{run}: the fault was not found as {rule:?}; found {found:?}")),
    }
}
