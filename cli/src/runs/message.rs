//! Messages to a run: `answer`, `signal`, `pause`, `resume`, `cancel`.

use super::{FoundRun, confirm, quoted};
use crate::args::{CancelArgs, CommandArgs, MessageArgs};
use crate::failure::{Failure, Status};
use crate::output::escape::OneLine;
use crate::output::times::short;
use crate::output::{Output, Report, Style, Version, remark};
use crate::store::Access;
use pleach::durable::{Delivery, RunControlError, RunView};
use serde::Serialize;
use serde_json::value::RawValue;
use std::io::Read as _;
use std::time::Duration;

/// The largest value that is read from standard input.
const INPUT_BYTES_MAX: u64 = 64 << 20;

/// The kinds of messages with a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Answer,
    Signal,
}

/// What happened to a message.
#[derive(Serialize)]
struct MessageReport {
    version: Version,
    store: String,
    id: String,
    action: &'static str,
    name: Option<String>,
    is_dry_run: bool,
    /// `stored` in the inbox, or `taken` by the run.
    outcome: &'static str,
}

impl Report for MessageReport {
    fn text(&self, _: &Style) -> String {
        let name = self.name.as_ref().map(|name| format!(" {}", quoted(name))).unwrap_or_default();
        let what = format!("{}{name} for run {}", self.action, quoted(&self.id));
        match self.outcome {
            "taken" => format!("{what}: the run took it\n"),
            "stored" => format!("{what}: stored; the driver of the run takes it\n"),
            _ => format!("{what}: would be sent\n"),
        }
    }
}

pub async fn send(args: MessageArgs, kind: Kind, output: &Output) -> Result<(), Failure> {
    let value = json_value(&args.value)?;
    let access = if args.options.dry_run { Access::Read } else { Access::Write };
    let run = FoundRun::open(args.run, access).await?;
    check_open(&run)?;
    say_if_unexpected(&run.remote().view().await?, &args.name, kind);
    let (remote, action) = (run.remote(), if kind == Kind::Answer { "answer" } else { "signal" });
    let delivery = || match kind {
        Kind::Answer => remote.resume_with(&args.name, &*value),
        Kind::Signal => remote.signal(&args.name, &*value),
    };
    deliver(&run, action, Some(args.name.clone()), delivery, args.options.dry_run, args.options.wait, output).await
}

pub async fn pause(args: CommandArgs, output: &Output) -> Result<(), Failure> {
    let run = FoundRun::open(args.run, access(args.options.dry_run)).await?;
    check_open(&run)?;
    let remote = run.remote();
    deliver(&run, "pause", None, || remote.pause(), args.options.dry_run, args.options.wait, output).await
}

pub async fn resume(args: CommandArgs, output: &Output) -> Result<(), Failure> {
    let run = FoundRun::open(args.run, access(args.options.dry_run)).await?;
    check_open(&run)?;
    let remote = run.remote();
    deliver(&run, "resume", None, || remote.resume(), args.options.dry_run, args.options.wait, output).await
}

pub async fn cancel(args: CancelArgs, output: &Output) -> Result<(), Failure> {
    let confirm = args.change.confirm;
    let run = FoundRun::open(args.change.run, access(confirm.dry_run)).await?;
    check_open(&run)?;
    if !confirm.dry_run {
        confirm::ask(&format!("Cancel run {} permanently?", quoted(run.id())), "yes", confirm)?;
    }
    let remote = run.remote();
    deliver(&run, "cancel", None, || remote.cancel(args.reason.clone()), confirm.dry_run, args.wait, output).await
}

fn access(is_dry_run: bool) -> Access {
    if is_dry_run { Access::Read } else { Access::Write }
}

/// Refuses an ended run, also for a dry run.
fn check_open(run: &FoundRun) -> Result<(), Failure> {
    if !run.info.status.has_ended() {
        return Ok(());
    }
    let text = format!("run {:?} has ended ({}) and takes no messages", run.id(), run.info.status);
    Err(Failure::new(Status::Refused, text).advice(run.command("show", "")))
}

async fn deliver(
    run: &FoundRun,
    action: &'static str,
    name: Option<String>,
    delivery: impl FnOnce() -> Delivery,
    is_dry_run: bool,
    wait: Option<Duration>,
    output: &Output,
) -> Result<(), Failure> {
    let outcome = match (is_dry_run, wait) {
        (true, _) => "none",
        (false, None) => {
            delivery().await?;
            "stored"
        }
        (false, Some(wait)) => {
            delivery().confirmed(wait).await.map_err(|error| unconfirmed(run, error, wait))?;
            "taken"
        }
    };
    let (store, id) = (run.target.name(), run.id().to_string());
    output.print(&MessageReport { version: Version, store, id, action, name, is_dry_run, outcome })
}

fn unconfirmed(run: &FoundRun, error: RunControlError, waited: Duration) -> Failure {
    let is_unconfirmed = matches!(error, RunControlError::Unconfirmed { .. });
    let failure = Failure::from(error);
    if !is_unconfirmed {
        return failure;
    }
    remark(&format!("waited {}", short(waited)));
    failure.advice(format!("see what it waits for and who drives it: {}", run.command("show", "")))
}

/// Reads a value as JSON. Nothing of it is parsed, so every digit stays.
pub fn json_value(text: &str) -> Result<Box<RawValue>, Failure> {
    let text = if text == "-" { input()? } else { text.to_string() };
    let wrong = |error: serde_json::Error| {
        let failure = Failure::usage(format_args!("the value is not JSON: {error}"));
        failure.advice("write true, 42, '\"a text\"' or '{\"key\": 1}'; a text needs double quotes inside single quotes")
    };
    // Checks the text, and leaves out white space around it.
    serde_json::from_str::<&RawValue>(&text).map(RawValue::to_owned).map_err(wrong)
}

/// Reads standard input to its end.
fn input() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format_args!("cannot read standard input: {error}")))?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        return Err(Failure::usage("standard input has more than 64 MiB"));
    }
    Ok(text)
}

/// Says if the run does not wait for this message now. It may do so later, so it is sent anyway.
fn say_if_unexpected(view: &RunView, name: &str, kind: Kind) {
    let is_expected = view.waits().any(|wait| wait.key == name && wait.is_signal == (kind == Kind::Signal));
    if !is_expected {
        let waits: Vec<String> = view.waits().map(|wait| quoted(&wait.key)).collect();
        let waits = if waits.is_empty() { "nothing".into() } else { waits.join(", ") };
        remark(&format!("note: the run does not wait for {} now; it waits for {waits}", OneLine(name)));
    }
}
