//! The second part of the demo: six essays as durable runs in a SQLite file.
//!
//! Kill the demo at any time and start it again. It prints which runs it picked up and from which
//! step. Completed steps do not run again.

use super::essays::{self, Essay, Till};
use crate::failure::Failure;
use crate::output;
use pleach::prelude::*;
use pleach::store::{Filter, Parts, Place, Rows, RunInfo, RunStatus, SqliteStore, Store, StoreError};
use std::fmt;
use std::path::PathBuf;

const TOPICS: [&str; 6] = ["actors", "scopes", "groups", "graphs", "crashes", "patience"];

/// The lease of a run. Another process can claim the run when it has expired.
const LEASE: Duration = Duration::from_secs(2);

/// The result of all runs.
pub struct RunReport {
    file: PathBuf,
    picked_up: Vec<PickedUp>,
    done_before: usize,
    essays: Vec<(String, Essay)>,
    charges: (usize, usize),
}

/// The state of a run when the demo starts.
enum Found {
    Nothing,
    Done,
    Unfinished(PickedUp),
}

/// A run that an earlier demo did not finish.
struct PickedUp {
    run: String,
    /// The last durable record.
    sequence: u64,
    /// The completed node, and the next one.
    place: String,
}

/// The output could not be written.
#[derive(Debug)]
pub struct Stopped(pub Failure);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl std::error::Error for Stopped {}

/// Resumes the runs of an earlier demo, starts the others, and waits until all have finished.
pub async fn run() -> Result<RunReport, pleach::BoxError> {
    let file = std::env::temp_dir().join("pleach-demo.db");
    let till = Till::at(file.with_extension("till"));
    let store = SqliteStore::open(&file).await?;
    let graph = essays::graph()?;

    let (mut picked_up, mut done_before) = (Vec::new(), 0);
    let system = ActorSystem::new("essays")?;
    let group = system.group::<(String, Essay)>("essays").limit(4).build()?;
    for topic in TOPICS {
        let id = format!("essay on {topic}");
        let run = match find(&store, &id).await? {
            Found::Nothing => graph.run(Essay { topic: topic.into(), ..Essay::default() }).id(id.as_str()).checkpoint(&store),
            Found::Done => {
                done_before += 1;
                graph.resume(id.as_str()).checkpoint(&store)
            }
            Found::Unfinished(found) => {
                output::write_all(&format!("{found}\n")).map_err(Stopped)?;
                picked_up.push(found);
                graph.resume(id.as_str()).checkpoint(&store)
            }
        };
        let run = run.lease(LEASE).extension(till.clone());
        group.go(async move { run.await.map(|essay| (id, essay)) }).await?;
    }
    group.close();
    let mut essays = Vec::new();
    while let Some(essay) = group.next().await {
        essays.push(essay?);
    }
    system.shutdown(Duration::from_secs(5)).await?;
    let report = RunReport { picked_up, done_before, essays, charges: till.count(), file };
    clear(&store, &till).await?;
    Ok(report)
}

async fn find(store: &SqliteStore, id: &str) -> Result<Found, StoreError> {
    let RunInfo { head, status, .. } = match store.head(id).await {
        Ok(info) => info,
        Err(StoreError::RunNotFound { .. }) => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    if status == RunStatus::Finished {
        return Ok(Found::Done);
    }
    let rows = store.read(id, Rows::Each(vec![head]), Parts::Headers).await?;
    let header = rows.first().map(|row| row.open_header(id)).transpose()?;
    let place = header.map_or_else(String::new, |header| match (header.node.as_str(), &header.next) {
        ("", _) => "no node is done".to_string(),
        (node, Some(Place::Node(next))) => format!("{node:?} is done, {next:?} is next"),
        (node, Some(Place::Fork(_))) => format!("{node:?} is done, its branches are next"),
        (node, Some(Place::Join(_))) => format!("the branch of {node:?} is done, other branches are not"),
        (node, _) => format!("inside {node:?}"),
    });
    Ok(Found::Unfinished(PickedUp { run: id.to_string(), sequence: head, place }))
}

/// Removes all finished runs, so that the next demo starts from the beginning.
async fn clear(store: &SqliteStore, till: &Till) -> Result<(), pleach::BoxError> {
    let done = store.list(vec![Filter::Graph("essay".into()), Filter::Status(RunStatus::Finished)], None, 100).await?;
    for run in done.runs {
        store.delete(&run.id).await?;
    }
    drop(std::fs::remove_file(till.path()));
    Ok(())
}

impl RunReport {
    /// Returns the first error in the result, if any.
    pub fn fault(&self) -> Option<String> {
        let (charges, repeated) = self.charges;
        let due = TOPICS.len() * 3;
        if self.essays.len() != TOPICS.len() {
            return Some(format!("{} of {} essays are finished", self.essays.len(), TOPICS.len()));
        }
        if charges - repeated != due {
            return Some(format!("{} different charges, expected {due}", charges - repeated));
        }
        self.essays
            .iter()
            .find(|(_, essay)| essay.words.len() != 4 || essay.cents != 6)
            .map(|(id, essay)| format!("{id}: {essay:?}"))
    }
}

impl fmt::Display for PickedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, sequence, place } = self;
        write!(f, "picked up {run:?} after record {sequence}: {place}")
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, picked_up, done_before, essays, charges: (charges, repeated) } = self;
        let (picked_up, all) = (picked_up.len(), essays.len());
        let begun = all - picked_up - done_before;
        writeln!(f, "{all} essays are finished: {begun} started now, {picked_up} resumed, {done_before} finished before")?;
        writeln!(
            f,
            "{charges} charges, {repeated} of them repeated with the same key after a kill; every draft is paid for once"
        )?;
        writeln!(f, "stored in {}: kill the demo with -9 at any time and start it again", file.display())
    }
}
