//! The checks can fail: each faulty store is detected in a scene that a sound store passes.
//!
//! Of the five faults that the checks must find, `synchronous=OFF` is missing here: data of a dead
//! process survives whether or not it was synced, so only a power cut shows that fault. See
//! `stores/power.rs` in `graph/tests`.

use crate::graph::Variant;
use crate::mutant::Mutant;
use crate::outside::lock;
use crate::place::Place;
use crate::report::Spec;
use crate::site::Site;
use std::time::Duration;

const HOLD_MAX: Duration = Duration::from_secs(20);

/// Runs each mutant that this store can have, and a sound store in the same scene. Returns the
/// findings.
pub fn run(site: &Site) -> Result<Vec<String>, String> {
    let mut results = Vec::new();
    let die = |class: &str, pass: u64| (class.to_string(), pass);
    for (mutant, place, rule) in [
        (Mutant::AdvanceBeforeCommit, die("node start", 6), "ran ahead"),
        (Mutant::AcknowledgeBeforeCommit, die("acknowledged", 6), "lost"),
        (Mutant::AcknowledgeBeforeCommit, die("once after", 1), "twice"),
    ] {
        for mutant in [None, Some(mutant)] {
            let run = format!("early, {}, {mutant:?}", place.0);
            a_death(site, &run, &Spec { dies_at: Some(place.clone()), mutant, ..site.spec(&run) })?;
            site.case(&run, Variant::Full, &[], None)?;
            results.push(verdict(site, &run, mutant, rule)?);
        }
    }
    for mutant in [None, Some(Mutant::Forgetful)] {
        let run = format!("forgetful, {mutant:?}");
        a_death(site, &run, &Spec { dies_at: Some(die("commit after", 3)), ..site.spec(&run) })?;
        // It continues although it should not, until its first commit is rejected.
        let mut driver = site.start(&Spec { mutant, ..site.spec(&run) })?;
        let lot = run.clone();
        site.ledger.wait(HOLD_MAX, move |book| book.assignments.tasks[&lot].endings > 0);
        driver.kill();
        site.autopsy(driver.pid);
        site.case(&run, Variant::Full, &[], None)?;
        results.push(verdict(site, &run, mutant, "repeated")?);
    }
    let mut scenes = vec![(None, "commit before"), (Some(Mutant::NoEpochCheck), "commit before")];
    if matches!(site.place, Place::Postgres(_)) {
        scenes.push((Some(Mutant::ForKeyShare), "commit inside"));
    }
    for (mutant, place) in scenes {
        let run = format!("stale, {mutant:?}");
        a_stale_commit(site, &run, mutant, place)?;
        results.push(verdict(site, &run, mutant, "fence")?);
    }
    Ok(results)
}

/// A driver starts a run and dies. Others continue, since a faulty store may never reach an end.
fn a_death(site: &Site, run: &str, spec: &Spec) -> Result<(), String> {
    site.ledger.with(|book| book.assignments.add_case(run, Variant::Full));
    let mut driver = site.start(spec)?;
    driver.wait(HOLD_MAX)?;
    site.autopsy(driver.pid);
    Ok(())
}

/// A driver is held during a commit, another one claims its run and dies, and then the first
/// continues.
fn a_stale_commit(site: &Site, run: &str, mutant: Option<Mutant>, place: &str) -> Result<(), String> {
    // No lease expires here: the run is taken by force.
    let lease_millis = 60_000;
    let spec = Spec { mutant, lease_millis, ..site.spec(run) };
    site.ledger.with(|book| book.assignments.add_case(run, Variant::Full));
    let mut stale = site.start(&Spec { holds_at: Some((place.into(), 5)), ..spec.clone() })?;
    if !site.ledger.wait_for_hold(stale.pid, HOLD_MAX) {
        return Err(format!("{run}: the driver did not reach {place:?}"));
    }
    site.ledger.with(|book| book.assignments.hand_over(run));
    let mut next = site.start(&Spec { dies_at: Some(("claim after".into(), 1)), ..spec })?;
    next.wait(HOLD_MAX)?;
    site.autopsy(next.pid);
    site.ledger.let_go(stale.pid);
    let lot = run.to_string();
    if !site.ledger.wait(HOLD_MAX, move |book| book.assignments.tasks[&lot].endings > 0) {
        return Err(format!("{run}: the held driver did not end: {}", site.complaints(run)));
    }
    stale.kill();
    site.autopsy(stale.pid);
    site.ledger.with(|book| book.assignments.hand_over(run));
    site.case(run, Variant::Full, &[], None).map(drop)
}

/// Checks that a mutant was found by its rule, and that a sound store breaks no rule.
fn verdict(site: &Site, run: &str, mutant: Option<Mutant>, rule: &str) -> Result<String, String> {
    let mut checker = lock(&site.checker);
    let (found, others) = std::mem::take(&mut checker.violations).into_iter().partition(|violation| violation.run == run);
    checker.violations = others;
    match (mutant, found.iter().find(|violation| violation.rule == rule)) {
        (None, None) if found.is_empty() => Ok(format!("{run}: no violation in a sound store")),
        (None, _) => Err(format!("{run}: violation in a sound store: {}", found[0])),
        (Some(_), Some(found)) => Ok(format!("{run}: found: {found}")),
        (Some(_), None) => Err(format!("{run}: the fault was not found as {rule:?}; found {found:?}")),
    }
}
