//! The demo's durable runs: a handful of essays in a SQLite file. Kill the demo at any moment and start it again: it says which runs it picked up and
//! from which step, and nothing that was done is done again.

use crate::essays::{self, Essay, Till};
use pleach::prelude::*;
use pleach::store::{Filter, Parts, Place, Rows, RunInfo, RunStatus, SqliteStore, Store, StoreError};
use std::fmt;
use std::path::PathBuf;

const TOPICS: [&str; 6] = ["actors", "scopes", "groups", "graphs", "crashes", "patience"];

/// A run whose process died is another's after this long.
const LEASE: Duration = Duration::from_secs(2);

/// What came of the runs.
pub struct RunReport {
    file: PathBuf,
    picked_up: Vec<PickedUp>,
    done_before: usize,
    essays: Vec<(String, Essay)>,
    charges: (usize, usize),
}

/// How a run stands when the demo begins.
enum Found {
    Nothing,
    Done,
    Unfinished(PickedUp),
}

/// A run that an earlier demo left unfinished.
struct PickedUp {
    run: String,
    /// The last record that was durable.
    sequence: u64,
    /// What is done, and what comes next.
    place: String,
}

/// Picks up what an earlier demo left, begins what it did not, and brings all of it to its end.
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
                println!("{found}");
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
        Err(StoreError::Unknown { .. }) => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    if status == RunStatus::Finished {
        return Ok(Found::Done);
    }
    let rows = store.read(id, Rows::Each(vec![head]), Parts::Headers).await?;
    let header = rows.first().map(|row| row.open_header(id)).transpose()?;
    let place = header.map_or_else(String::new, |header| match (header.node.as_str(), &header.next) {
        ("", _) => "nothing was done yet".to_string(),
        (node, Some(Place::Node(next))) => format!("{node:?} is done, {next:?} is next"),
        (node, Some(Place::Fork(_))) => format!("{node:?} is done, its branches are next"),
        (node, Some(Place::Join(_))) => format!("the branch of {node:?} is done, others are not"),
        (node, _) => format!("inside {node:?}"),
    });
    Ok(Found::Unfinished(PickedUp { run: id.to_string(), sequence: head, place }))
}

/// All of it came to its end: the next demo begins anew.
async fn clear(store: &SqliteStore, till: &Till) -> Result<(), pleach::BoxError> {
    let done = store.list(vec![Filter::Graph("essay".into()), Filter::Status(RunStatus::Finished)], None, 100).await?;
    for run in done.runs {
        store.delete(&run.id).await?;
    }
    drop(std::fs::remove_file(till.path()));
    Ok(())
}

impl RunReport {
    /// What does not add up, if anything does not.
    pub fn fault(&self) -> Option<String> {
        let (charges, repeated) = self.charges;
        let due = TOPICS.len() * 3;
        if self.essays.len() != TOPICS.len() {
            return Some(format!("{} essays of {}", self.essays.len(), TOPICS.len()));
        }
        if charges - repeated != due {
            return Some(format!("{} different charges, and there should be {due}", charges - repeated));
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
        writeln!(
            f,
            "{all} essays are written: {begun} begun now, {picked_up} picked up unfinished, {done_before} found finished"
        )?;
        writeln!(
            f,
            "{charges} charges, {repeated} of them repeated under the same key after a kill; every draft is paid for once"
        )?;
        writeln!(f, "they were kept in {}: kill the demo with -9 at any moment, and start it again", file.display())
    }
}
