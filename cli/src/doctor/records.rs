//! The checksums of records: of the newest runs, or of all.

use super::{Findings, Level, some_of};
use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::runs::quoted;
use crate::store::{OpenStore, Target};
use pleach::store::{Parts, READ_ROWS_MAX, Rows, RunInfo, Store as _, StoreError};

/// The runs and records that are examined without `--full`.
const RUNS_MAX: usize = 100;
const RECORDS_MAX: u64 = 20_000;

/// The runs of one page.
const PAGE: usize = 100;

/// The most damages that are listed.
const DAMAGED_MAX: usize = 20;

pub async fn examine(store: &OpenStore, target: &Target, is_full: bool, findings: &mut Findings) -> Result<(), Failure> {
    let progress = Progress::new("records checked");
    let (mut after, mut runs, mut records) = (None, 0, 0);
    let (mut damaged, mut first) = (Vec::new(), None);
    loop {
        let page = store.list(Vec::new(), after, PAGE).await?;
        for run in &page.runs {
            runs += 1;
            let (read, damage) = check(store, run, &progress).await?;
            records += read;
            if let Some(damage) = damage {
                first.get_or_insert(damage.to_string());
                damaged.push(run.id.clone());
            }
            if !is_full && records >= RECORDS_MAX {
                break;
            }
        }
        after = page.next;
        let is_enough = !is_full && (runs >= RUNS_MAX || records >= RECORDS_MAX);
        if after.is_none() || is_enough || damaged.len() >= DAMAGED_MAX {
            break;
        }
    }
    let sample = if after.is_some() { "newest " } else { "" };
    let text = format!("{records} records of the {sample}{runs} runs");
    match (first, damaged.first()) {
        (Some(damage), Some(run)) => {
            let text =
                format!("{text}: {} runs have damaged records ({}), such as: {damage}", damaged.len(), some_of(&damaged));
            let command = format!("pleach why {} {}", quoted(&target.name()), quoted(run));
            let advice = "restore the store from a backup, or rewind each run to a record before the damage";
            findings.bad_with(Level::Problem, "checksums", text, advice, command);
        }
        _ => findings.ok("checksums", format!("{text} have the right checksums")),
    }
    Ok(())
}

/// Reads all records and messages of a run. Returns the number of records, and the first damage.
async fn check(store: &OpenStore, run: &RunInfo, progress: &Progress) -> Result<(u64, Option<StoreError>), Failure> {
    match read(store, run, progress).await {
        Ok(records) => Ok((records, None)),
        Err(damage @ StoreError::Damaged { .. }) => Ok((0, Some(damage))),
        // It was pruned or removed meanwhile.
        Err(StoreError::Pruned { .. } | StoreError::RunNotFound { .. } | StoreError::NoSuchRow { .. }) => Ok((0, None)),
        Err(error) => Err(error.into()),
    }
}

async fn read(store: &OpenStore, run: &RunInfo, progress: &Progress) -> Result<u64, StoreError> {
    let (mut next, mut count) = (run.oldest.max(1), 0);
    while next <= run.head {
        let last = run.head.min(next + READ_ROWS_MAX as u64 - 1);
        let rows = store.read(&run.id, Rows::Range(next..=last), Parts::Whole).await?;
        let Some(end) = rows.last().map(|row| row.sequence) else { break };
        count += rows.len() as u64;
        progress.add(rows.len() as u64);
        next = end + 1;
        for row in rows {
            row.open(&run.id)?;
        }
    }
    let mut after = 0;
    while run.last_message > after {
        let messages = store.inbox(&run.id, after).await?;
        let Some(last) = messages.last().map(|message| message.number) else { break };
        after = last;
        for message in messages {
            message.message.open(&run.id)?;
        }
    }
    Ok(count)
}
