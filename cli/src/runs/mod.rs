//! The words of `pleach runs`: they list, inspect and steer the durable runs of a store.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | which word does what; finding a run by the beginning of its id |
//! | `info` | the row of a run as text and JSON |
//! | `list`, `groups` | `list` |
//! | `show`, `state` | `show`, `diff` |
//! | `history`, `tail` | `history`, `tail` |
//! | `message` | `answer`, `signal`, `pause`, `resume`, `cancel` |
//! | `change` | `rewind`, `fork`, `retry`, `unstick`, `delete`, `prune` |
//! | `preview` | what a rewind, fork or retry would run again |
//! | `confirm` | the question before a change |
//! | `why` | `pleach why` of a run |
//!
//! Rules:
//! 1. A word that only reads opens the store for reading only.
//! 2. No word creates or migrates a store.
//! 3. A word that destroys something asks first, or needs `--yes`.

mod change;
pub mod confirm;
mod groups;
mod history;
mod info;
mod list;
mod message;
mod preview;
mod show;
mod state;
mod tail;
pub mod why;

use crate::args::{RunArgs, RunsWord};
use crate::failure::{Failure, Status};
use crate::output::Output;
use crate::output::escape::OneLine;
use crate::store::{Access, OpenStore, Target};
use pleach::durable::RunRemote;
use pleach::store::{Filter, RunInfo, Store as _, StoreError};
use pleach_console::report::command::of_run;
pub use pleach_console::report::command::quoted;

/// The most ids that an error lists.
const LISTED_MAX: usize = 5;

pub async fn run(word: RunsWord, output: &Output) -> Result<(), Failure> {
    match word {
        RunsWord::List(args) => list::run(args, output).await,
        RunsWord::Show(args) => show::run(args, output).await,
        RunsWord::History(args) => history::run(args, output).await,
        RunsWord::Diff(args) => state::diff(args, output).await,
        RunsWord::Tail(args) => tail::run(args, output).await,
        RunsWord::Answer(args) => message::send(args, message::Kind::Answer, output).await,
        RunsWord::Signal(args) => message::send(args, message::Kind::Signal, output).await,
        RunsWord::Pause(args) => message::pause(args, output).await,
        RunsWord::Resume(args) => message::resume(args, output).await,
        RunsWord::Cancel(args) => message::cancel(args, output).await,
        RunsWord::Rewind(args) => change::rewind(args, output).await,
        RunsWord::Fork(args) => change::fork(args, output).await,
        RunsWord::Retry(args) => change::retry(args, output).await,
        RunsWord::Delete(args) => change::delete(args, output).await,
        RunsWord::Prune(args) => change::prune(args, output).await,
        RunsWord::Unstick(args) => change::unstick(args, output).await,
    }
}

/// A run in an open store.
pub struct FoundRun {
    pub target: Target,
    pub store: OpenStore,
    pub info: RunInfo,
}

impl FoundRun {
    /// Opens the store and finds the run, whose id may be given by a unique beginning.
    pub async fn open(args: RunArgs, access: Access) -> Result<Self, Failure> {
        let (target, store) = (args.store.store.clone(), args.store.store.open(access).await?);
        let info = find(&store, &target, &args.run).await?;
        Ok(Self { target, store, info })
    }

    pub fn id(&self) -> &str {
        &self.info.id
    }

    pub fn remote(&self) -> RunRemote {
        RunRemote::new(&self.store, self.id())
    }

    /// Returns a command line for this run, for people to copy.
    pub fn command(&self, word: &str, more: &str) -> String {
        of_run(&self.target.name(), self.id(), word, more)
    }
}

/// Finds a run by its id or by a beginning that only one run has.
pub async fn find(store: &OpenStore, target: &Target, text: &str) -> Result<RunInfo, Failure> {
    match store.head(text).await {
        Err(StoreError::RunNotFound { .. }) => {}
        found => return Ok(found?),
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(vec![Filter::IdPrefix(text.to_string())], after, LISTED_MAX + 1).await?;
        found.extend(page.runs);
        after = page.next;
        if after.is_none() || found.len() > LISTED_MAX {
            break;
        }
    }
    if found.len() > 1 {
        let more = if found.len() > LISTED_MAX { ", ..." } else { "" };
        let ids: Vec<String> = found.iter().take(LISTED_MAX).map(|info| quoted(&info.id)).collect();
        let text = format!("several runs have ids that begin with {}: {}{more}", OneLine(text), ids.join(", "));
        return Err(Failure::usage(text).advice("give more of the id"));
    }
    found.pop().ok_or_else(|| {
        let text = format!("the store {} has no run whose id is or begins with {:?}", target.name(), text);
        Failure::new(Status::NotFound, text).advice(format!("list the runs with: pleach runs list {}", quoted(&target.name())))
    })
}
