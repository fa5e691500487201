//! Changes of a run: `rewind`, `fork`, `retry`, `unstick`, `delete`, and `prune` for many.
//!
//! Each word first says what would happen. Then it asks, unless `--yes` or `--dry-run` was given.

use super::message::json_value;
use super::{FoundRun, confirm, preview, quoted};
use crate::args::{ChangeArgs, Confirm, ForkArgs, PruneArgs, RewindArgs};
use crate::failure::{Failure, Status};
use crate::output::progress::Progress;
use crate::output::{Output, Report, Style, Version, remark};
use crate::store::{Access, OpenStore};
use pleach::durable::{RewindPreview, RewindTo};
use pleach::store::{Filter, Prune, RunStatus, Store as _, Timestamp};
use pleach_console::report::preview::PreviewJson;
use serde::{Serialize, Serializer};
use std::time::{Duration, SystemTime};

/// The runs that one call removes.
const PRUNED_AT_ONCE: usize = 200;

/// The most runs that are counted before a prune.
const COUNTED_MAX: u64 = 100_000;

/// What a change did, or would do.
#[derive(Serialize)]
struct ChangeReport {
    version: Version,
    store: String,
    id: String,
    action: &'static str,
    is_dry_run: bool,
    /// The last record of the run after the change.
    record: Option<u64>,
    new_run: Option<String>,
    #[serde(serialize_with = "preview_json")]
    preview: Option<RewindPreview>,
}

fn preview_json<S: Serializer>(preview: &Option<RewindPreview>, serializer: S) -> Result<S::Ok, S::Error> {
    preview.as_ref().map(PreviewJson::of).serialize(serializer)
}

impl Report for ChangeReport {
    fn text(&self, _: &Style) -> String {
        let id = quoted(&self.id);
        let preview = self.preview.as_ref().filter(|_| self.is_dry_run).map(preview::text).unwrap_or_default();
        let done = match (self.is_dry_run, &self.new_run, self.record) {
            (true, ..) => format!("{} of run {id}: nothing was changed\n", self.action),
            (false, Some(new), _) => format!("created run {}; a worker continues it\n", quoted(new)),
            (false, None, Some(record)) => {
                format!("{} of run {id}: done, its last record is now {record}; a worker continues it\n", self.action)
            }
            (false, None, None) => format!("{} of run {id}: done\n", self.action),
        };
        preview + &done
    }
}

pub async fn rewind(args: RewindArgs, output: &Output) -> Result<(), Failure> {
    let (run, confirm) = open(args.change).await?;
    let preview = run.remote().preview_rewind(RewindTo::Record(args.record)).await?;
    let question = format!("Rewind run {} to record {}?", quoted(run.id()), args.record);
    if proceed(&preview, &question, confirm, output)? {
        let record = Some(run.remote().rewind_to(args.record).await.map_err(|fault| with_advice(&run, fault.into()))?);
        return print(&run, "rewind", false, record, None, Some(preview), output);
    }
    print(&run, "rewind", true, None, None, Some(preview), output)
}

pub async fn retry(args: ChangeArgs, output: &Output) -> Result<(), Failure> {
    let (run, confirm) = open(args).await?;
    if !matches!(run.info.status, RunStatus::Failed | RunStatus::CompensationFailed) {
        let text = format!("run {:?} was not retried: it is {}, not failed", run.id(), run.info.status);
        return Err(Failure::new(Status::Refused, text).advice(run.command("show", "")));
    }
    let preview = run.remote().preview_rewind(RewindTo::Head).await?;
    if proceed(&preview, &format!("Retry run {}?", quoted(run.id())), confirm, output)? {
        let record = Some(run.remote().retry().await.map_err(|fault| with_advice(&run, fault.into()))?);
        return print(&run, "retry", false, record, None, Some(preview), output);
    }
    print(&run, "retry", true, None, None, Some(preview), output)
}

pub async fn fork(args: ForkArgs, output: &Output) -> Result<(), Failure> {
    let state = args.state.as_deref().map(json_value).transpose()?;
    let (run, confirm) = open(args.change).await?;
    let from = RewindTo::Record(args.record);
    let preview = run.remote().preview_fork(from).await?;
    let question = format!("Create run {} from run {}?", quoted(&args.new), quoted(run.id()));
    if proceed(&preview, &question, confirm, output)? {
        let state = state.as_deref().map(serde_json::value::RawValue::get);
        run.remote().fork_to(args.new.as_str(), from, state).await?;
        return print(&run, "fork", false, None, Some(args.new), Some(preview), output);
    }
    print(&run, "fork", true, None, Some(args.new), Some(preview), output)
}

pub async fn unstick(args: ChangeArgs, output: &Output) -> Result<(), Failure> {
    let (run, confirm) = open(args).await?;
    if run.info.status != RunStatus::Stuck {
        let text = format!("run {:?} is {}, not stuck", run.id(), run.info.status);
        return Err(Failure::new(Status::Refused, text).advice(run.command("show", "")));
    }
    if !confirm.dry_run {
        let trouble = run.info.trouble.as_deref().unwrap_or("no reason is known");
        confirm::ask(&format!("Run {} was stuck because: {trouble}. Try it again?", quoted(run.id())), "yes", confirm)?;
        run.remote().unstick().await?;
    }
    print(&run, "unstick", confirm.dry_run, None, None, None, output)
}

pub async fn delete(args: ChangeArgs, output: &Output) -> Result<(), Failure> {
    let (run, confirm) = open(args).await?;
    if !confirm.dry_run {
        let what = format!("{} run {} with {} records", run.info.status, quoted(run.id()), run.info.head);
        confirm::ask(&format!("Delete the {what} permanently?"), "yes", confirm)?;
        run.store.delete(run.id()).await.map_err(|error| with_advice(&run, error.into()))?;
    }
    print(&run, "delete", confirm.dry_run, None, None, None, output)
}

/// What `prune` removed, or would remove.
#[derive(Serialize)]
struct PruneReport {
    version: Version,
    store: String,
    action: &'static str,
    is_dry_run: bool,
    /// The runs that match, and whether more were not counted.
    runs: u64,
    is_cut: bool,
    removed: u64,
}

impl Report for PruneReport {
    fn text(&self, _: &Style) -> String {
        let more = if self.is_cut { " or more" } else { "" };
        match self.is_dry_run {
            true => format!("{}{more} ended runs would be removed\n", self.runs),
            false => format!("{} ended runs were removed\n", self.removed),
        }
    }
}

pub async fn prune(args: PruneArgs, output: &Output) -> Result<(), Failure> {
    let (target, confirm) = (args.store.store, args.confirm);
    let store = target.open(if confirm.dry_run { Access::Read } else { Access::Write }).await?;
    let (runs, is_cut) = count_ended(&store, args.older_than).await?;
    let mut removed = 0;
    if !confirm.dry_run && runs > 0 {
        let question = format!("Remove {runs}{} ended runs of {}?", if is_cut { " or more" } else { "" }, target.name());
        confirm::ask(&question, &runs.to_string(), confirm)?;
        removed = remove_ended(&store, args.older_than).await?;
        if removed < runs && !is_cut {
            remark(
                "note: some runs were not removed: a driver holds them, or the clock of the store was wrong when they ended",
            );
        }
    }
    let (store, is_dry_run) = (target.name(), confirm.dry_run);
    output.print(&PruneReport { version: Version, store, action: "prune", is_dry_run, runs, is_cut, removed })
}

/// Counts the ended runs that have not changed for this time. Returns whether there are more.
async fn count_ended(store: &OpenStore, unchanged_for: Duration) -> Result<(u64, bool), Failure> {
    let now: Timestamp = SystemTime::now().into();
    let before = Timestamp::from_millis(now.as_millis().saturating_sub(unchanged_for.as_millis() as i64));
    let mut count = 0;
    for status in RunStatus::ALL.into_iter().filter(|status| status.has_ended()) {
        let mut after = None;
        loop {
            let filters = vec![Filter::Status(status), Filter::ChangedBefore(before)];
            let page = store.list(filters, after, 500).await?;
            count += page.runs.len() as u64;
            after = page.next;
            if count >= COUNTED_MAX {
                return Ok((count, true));
            }
            if after.is_none() {
                break;
            }
        }
    }
    Ok((count, false))
}

/// Removes ended runs in small calls, so that drivers do not wait. Shows the progress on a
/// terminal.
async fn remove_ended(store: &OpenStore, unchanged_for: Duration) -> Result<u64, Failure> {
    let (mut removed, progress) = (0, Progress::new("runs removed"));
    loop {
        let some = store.prune(Prune::Ended { unchanged_for, count: PRUNED_AT_ONCE }).await?;
        removed += some;
        progress.add(some);
        if some == 0 {
            return Ok(removed);
        }
    }
}

async fn open(args: ChangeArgs) -> Result<(FoundRun, Confirm), Failure> {
    let confirm = args.confirm;
    let access = if confirm.dry_run { Access::Read } else { Access::Write };
    Ok((FoundRun::open(args.run, access).await?, confirm))
}

/// Says what will run again, and asks. Returns false for a dry run.
fn proceed(preview: &RewindPreview, question: &str, confirm: Confirm, output: &Output) -> Result<bool, Failure> {
    if confirm.dry_run {
        return Ok(false);
    }
    if !output.is_json() {
        remark(preview::text(preview).trim_end());
    }
    confirm::ask(question, "yes", confirm)?;
    Ok(true)
}

fn print(
    run: &FoundRun,
    action: &'static str,
    is_dry_run: bool,
    record: Option<u64>,
    new_run: Option<String>,
    preview: Option<RewindPreview>,
    output: &Output,
) -> Result<(), Failure> {
    let (store, id) = (run.target.name(), run.id().to_string());
    output.print(&ChangeReport { version: Version, store, id, action, is_dry_run, record, new_run, preview })
}

/// Says how a run that a driver holds can be changed.
fn with_advice(run: &FoundRun, failure: Failure) -> Failure {
    match failure.status {
        Status::Refused if failure.advice.is_none() && run.info.owner.is_some() => {
            failure.advice(format!("stop its driver first: {}", run.command("pause", "--wait 30s")))
        }
        _ => failure,
    }
}
