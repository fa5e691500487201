//! A process dies at every kill point of a run, at each pass, and another one continues. Sometimes
//! that one dies, too.

use crate::graph::Variant;
use crate::ledger_client::lock;
use crate::report::{CLASSES, KillPoint};
use crate::store_under_test::StoreUnderTest;
use pleach::runtime::Random;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// How often, in percent, the second process dies as well.
const SECOND_PERCENT: usize = 20;
/// More passes than any run makes.
const PASSES_MAX: u64 = 400;

/// How often the first pass of a class is tried until a process dies there.
const FIRST_TRIES: u32 = 6;

#[derive(Debug, Default)]
pub struct Deaths {
    pub first: u64,
    pub second: u64,
}

/// Dies at every `stride`-th pass of each class, beginning with the first. Uses one thread per
/// element, since a run mostly waits for a lease to expire.
pub fn run(tested: &[&StoreUnderTest], stride: u64, seed: u64) -> Result<Deaths, String> {
    let mut jobs: VecDeque<(Variant, &str)> = CLASSES.iter().map(|class| (Variant::Full, *class)).collect();
    let undoing = [
        "commit before",
        "commit after",
        "acknowledged",
        "effect before",
        "effect after",
        "undo start",
        "undo end",
        "read after",
    ];
    jobs.extend(undoing.map(|class| (Variant::Undone, class)));
    let refused = ["commit before", "commit after", "undo start", "undo end"];
    jobs.extend(refused.map(|class| (Variant::Refused, class)));
    jobs.extend(["prune before", "prune after"].map(|class| (Variant::Long, class)));
    // Long jobs first.
    jobs.make_contiguous().sort_by_key(|(_, class)| !(class.starts_with("commit") || class.starts_with("node")));
    let (jobs, first, second) = (Mutex::new(jobs), AtomicU64::new(0), AtomicU64::new(0));
    let failed = Mutex::new(None);
    thread::scope(|threads| {
        for tested in tested {
            let (jobs, first, second, failed) = (&jobs, &first, &second, &failed);
            threads.spawn(move || {
                loop {
                    let next = lock(jobs).pop_front();
                    let Some((variant, class)) = next else { break };
                    match die_at_each(tested, variant, class, stride, seed) {
                        Ok(deaths) => {
                            first.fetch_add(deaths.first, Relaxed);
                            second.fetch_add(deaths.second, Relaxed);
                        }
                        Err(why) => *lock(failed) = Some(why),
                    }
                    if lock(failed).is_some() {
                        break;
                    }
                }
            });
        }
    });
    // Each class has at least its first pass. A class without a death has no kill point any more.
    let died_at =
        tested.iter().flat_map(|tested| tested.ledger.with(|book| book.deaths.keys().cloned().collect::<Vec<String>>()));
    let died_at: BTreeSet<String> = died_at.collect();
    let missing: Vec<&&str> = CLASSES.iter().filter(|class| !died_at.contains(**class)).collect();
    match failed.into_inner().unwrap_or_default() {
        Some(why) => Err(why),
        None if !missing.is_empty() => Err(format!("no process died at {missing:?}")),
        None => Ok(Deaths { first: first.into_inner(), second: second.into_inner() }),
    }
}

fn die_at_each(tested: &StoreUnderTest, variant: Variant, class: &str, stride: u64, seed: u64) -> Result<Deaths, String> {
    let mut deaths = Deaths::default();
    let of_class = Random::seeded(class.len() as u64 + class.as_bytes()[0] as u64).next_u64();
    let mut random = Random::seeded(seed ^ of_class);
    let mut missed = 0;
    for pass in (1..PASSES_MAX).step_by(stride as usize) {
        let mut kill_points = vec![(class.to_string(), pass)];
        if random.below(100) < SECOND_PERCENT {
            kill_points.push(a_second_death(&mut random));
        }
        let mut died = tested.case(&format!("{variant:?} {class} {pass}"), variant, &kill_points, None)?;
        // A run may end before its pruning does, above all on a busy machine.
        for again in 1..FIRST_TRIES {
            if died > 0 || deaths.first > 0 || pass > 1 {
                break;
            }
            died = tested.case(&format!("{variant:?} {class} {pass} again {again}"), variant, &kill_points, None)?;
        }
        deaths.first += died.min(1) as u64;
        deaths.second += died.saturating_sub(1) as u64;
        // Branches may finish together in one run and separately in the next, so one miss does not
        // end the class.
        missed = if died == 0 { missed + 1 } else { 0 };
        if missed == 2 {
            break;
        }
    }
    Ok(deaths)
}

/// A kill point at the start of a resume, or soon after.
fn a_second_death(random: &mut Random) -> KillPoint {
    let classes = ["claim after", "read after", "commit before", "commit after", "acknowledged", "node start", "node end"];
    let class = classes[random.below(classes.len())];
    (class.to_string(), 1 + random.below(4) as u64)
}
