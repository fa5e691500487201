//! `pleach runs tail`: prints the records of a run as they are committed, until the run ends.

use super::history::{kind, then};
use super::info::branches;
use super::{FoundRun, find};
use crate::args::TailArgs;
use crate::failure::{Failure, Status};
use crate::output::escape::OneLine;
use crate::output::{Output, Report, Style, Version, remark};
use crate::store::{Access, OpenStore};
use pleach::durable::{Checkpoint, RunRemote};
use pleach::store::{RunInfo, RunStatus, Store as _, StoreError};
use pleach_console::report::history::RecordJson;
use serde::Serialize;
use std::time::Duration;
use tokio::time::Instant;

/// The first and the longest wait between two reads.
const READ_WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// The records that one call reads.
const PAGE: usize = 500;

pub async fn run(args: TailArgs, output: &Output) -> Result<(), Failure> {
    let until = args.timeout.map(|timeout| Instant::now() + timeout);
    let run = FoundRun::open(args.run, Access::Read).await?;
    let next = args.from.unwrap_or(run.info.head).max(1);
    let mut tail = Tail { next, output, last_status: None, retry_for: args.retry_for, run };
    let following = tail.follow();
    let ended = match until {
        None => following.await,
        Some(until) => tokio::time::timeout_at(until, following).await.unwrap_or_else(|_| {
            let text = format!("run {:?} had not ended after {:?}", tail.run.id(), args.timeout.unwrap_or_default());
            Err(Failure::new(Status::TimedOut, text))
        }),
    };
    match ended? {
        RunStatus::Finished => Ok(()),
        status => Err(Failure::new(Status::Failed, format_args!("run {:?} has ended: {status}", tail.run.id()))
            .advice(tail.run.command("show", ""))),
    }
}

struct Tail<'a> {
    run: FoundRun,
    /// The next record to print.
    next: u64,
    output: &'a Output,
    last_status: Option<RunStatus>,
    retry_for: Duration,
}

impl Tail<'_> {
    /// Prints records until the run has ended, and returns its final status.
    async fn follow(&mut self) -> Result<RunStatus, Failure> {
        let mut wait = READ_WAIT.0;
        loop {
            let printed = match self.print_new().await {
                Ok((info, printed)) if info.status.has_ended() && printed == 0 => return Ok(info.status),
                Ok((info, printed)) => {
                    self.say_status(info.status);
                    printed
                }
                Err(TailError::Store(error)) if may_recover(&error) => self.reopen(error).await?,
                Err(TailError::Store(error)) => return Err(error.into()),
                Err(TailError::Output(failure)) => return Err(failure),
            };
            wait = if printed > 0 { READ_WAIT.0 } else { (wait * 2).min(READ_WAIT.1) };
            tokio::time::sleep(wait).await;
        }
    }

    /// Prints the records that are new, and returns how many.
    async fn print_new(&mut self) -> Result<(RunInfo, usize), TailError> {
        let info = self.run.store.head(self.run.id()).await?;
        if info.head < self.next {
            return Ok((info, 0));
        }
        let page = RunRemote::new(&self.run.store, self.run.id()).history(self.next, PAGE).await?;
        for record in &page.checkpoints {
            self.output.print_line(&TailLine { id: self.run.id(), record }).map_err(TailError::Output)?;
            self.next = record.sequence + 1;
        }
        Ok((info, page.checkpoints.len()))
    }

    /// Says once when the run cannot continue on its own.
    fn say_status(&mut self, status: RunStatus) {
        if self.last_status.replace(status) != Some(status) && status == RunStatus::Stuck {
            remark(&format!("the run is stuck; it continues after: {}", self.run.command("unstick", "")));
        }
    }

    /// Opens the store again until it answers. Gives up after a while.
    async fn reopen(&mut self, error: StoreError) -> Result<usize, Failure> {
        remark(&format!("the store does not answer; trying again for {:?}: {}", self.retry_for, OneLine(&error.to_string())));
        let until = Instant::now() + self.retry_for;
        let mut last = Failure::new(Status::Unreachable, error);
        while Instant::now() < until {
            tokio::time::sleep(READ_WAIT.1).await;
            match self.opened().await {
                Ok(store) => {
                    remark("the store answers again");
                    self.run.store = store;
                    return Ok(1);
                }
                Err(failure) => last = failure,
            }
        }
        let text = format!("the store did not answer for {:?}: {}", self.retry_for, last.text);
        Err(Failure::new(Status::Unreachable, text))
    }

    async fn opened(&self) -> Result<OpenStore, Failure> {
        let store = self.run.target.open(Access::Read).await?;
        find(&store, &self.run.target, self.run.id()).await?;
        Ok(store)
    }
}

/// Returns whether the store may answer later. A file that was replaced is found by opening it
/// again.
fn may_recover(error: &StoreError) -> bool {
    error.is_temporary() || matches!(error, StoreError::Unusable { .. })
}

enum TailError {
    Store(StoreError),
    Output(Failure),
}

impl From<StoreError> for TailError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// One record of a run, on one line.
struct TailLine<'a> {
    id: &'a str,
    record: &'a Checkpoint,
}

#[derive(Serialize)]
struct TailJson<'a> {
    version: Version,
    id: &'a str,
    #[serde(flatten)]
    record: RecordJson<'a>,
}

impl Serialize for TailLine<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        TailJson { version: Version, id: self.id, record: RecordJson::of(self.record) }.serialize(serializer)
    }
}

impl Report for TailLine<'_> {
    fn text(&self, style: &Style) -> String {
        let record = self.record;
        let branch = branches(&record.path);
        let inside = if branch.is_empty() { String::new() } else { format!(" {branch:?}") };
        let line = format!(
            "{:>6}  {}  {:8}  {}{inside}  {}",
            record.sequence,
            style.times.exact(record.at),
            kind(record.kind),
            record.node,
            then(record)
        );
        format!("{}\n", OneLine(line.trim_end()))
    }
}
