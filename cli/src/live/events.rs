//! `pleach events`: prints the events of a process as they happen.
//!
//! A line says when events are missing: because this command read too slowly, or because the
//! connection was lost for some time.

use super::args::{EventKind, EventsArgs};
use super::why::places;
use crate::failure::{Failure, Status};
use crate::output::escape::OneLine;
use crate::output::times::rfc3339;
use crate::output::{Colour, Output, Report, Style, Version, remark};
use crate::socket::{Socket, SocketPath};
use clap::ValueEnum as _;
use pleach::actor::ActorPath;
use pleach::inspect::{EventInfo, Followed, Health, HealthReason};
use pleach::store::Timestamp;
use serde::Serialize;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// How long a process may take to answer a request.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The wait between two attempts to connect again.
const CONNECT_WAIT: Duration = Duration::from_millis(200);

pub async fn run(args: EventsArgs, output: &Output) -> Result<(), Failure> {
    let until = args.timeout.map(|timeout| Instant::now() + timeout);
    let following = follow(&args, output);
    match until {
        None => following.await,
        Some(until) => tokio::time::timeout_at(until, following).await.unwrap_or_else(|_| {
            // Not an error of the process, and the events were printed.
            Err(Failure::new(Status::TimedOut, format_args!("stopped after {:?}", args.timeout.unwrap_or_default())))
        }),
    }
}

/// Prints events until the process is gone for longer than the limit.
async fn follow(args: &EventsArgs, output: &Output) -> Result<(), Failure> {
    let (mut socket, mut known) = connect(args).await?;
    loop {
        let lost = print_events(&mut socket, &mut known, output).await?;
        remark(&format!("{}; trying again for {:?}", lost.text, args.retry_for));
        let before = (socket.hello().name.clone(), socket.hello().pid);
        let since = Instant::now();
        (socket, known) = reconnect(args, lost).await?;
        let (name, pid) = (&socket.hello().name, socket.hello().pid);
        let same = if before == (name.clone(), pid) { "the same process" } else { "another process" };
        let text = format!(
            "connected again to {name} (process {pid}, {same}); the events of about {:.1?} are missing",
            since.elapsed()
        );
        output.print_line(&EventLine::of_command("gap", text, None))?;
    }
}

/// Connects and follows. Returns also the problems that are not printed.
async fn connect(args: &EventsArgs) -> Result<(Socket, KnownProblems), Failure> {
    let mut socket = SocketPath::open(&args.socket, ANSWER_LIMIT).await?;
    let kinds = if args.kinds.is_empty() { &ALL_BUT_LINTS[..] } else { &args.kinds };
    let names: Vec<_> = kinds.iter().filter_map(EventKind::to_possible_value).collect();
    let names: Vec<&str> = names.iter().map(|name| name.get_name()).collect();
    let known = match args.since_now {
        true => KnownProblems::of(&socket.ask(async |client| client.health().await).await?),
        false => KnownProblems::default(),
    };
    match &args.path {
        Some(path) => socket.ask(async |client| client.follow_below(path, Some(&names)).await).await?,
        None => socket.ask(async |client| client.follow(Some(&names)).await).await?,
    }
    Ok((socket, known))
}

/// What is followed by default. Lints make every handler slower.
const ALL_BUT_LINTS: [EventKind; 10] = [
    EventKind::Failures,
    EventKind::Unhandled,
    EventKind::DeadLetters,
    EventKind::Lifecycle,
    EventKind::Decisions,
    EventKind::GaveUp,
    EventKind::StuckHandlers,
    EventKind::Mailboxes,
    EventKind::WaitCycles,
    EventKind::Health,
];

/// Connects again, as long as the arguments allow.
async fn reconnect(args: &EventsArgs, lost: Failure) -> Result<(Socket, KnownProblems), Failure> {
    let until = Instant::now() + args.retry_for;
    let mut last = lost;
    while Instant::now() < until {
        tokio::time::sleep(CONNECT_WAIT).await;
        match connect(args).await {
            Ok(connected) => return Ok(connected),
            Err(failure) => last = failure,
        }
    }
    let text = format!("the process was gone for {:?}: {}", args.retry_for, last.text);
    Err(Failure { text, ..Failure::new(Status::Unreachable, "") })
}

/// Prints events until the connection is lost, and returns why. `Err`: nothing more can be printed.
async fn print_events(socket: &mut Socket, known: &mut KnownProblems, output: &Output) -> Result<Failure, Failure> {
    let path = socket.path().clone();
    loop {
        let event = match socket.client().next_event().await {
            Ok(event) => event,
            Err(error) => return Ok(path.failure(&error)),
        };
        let line = match &event {
            Followed::Event(event) if known.hides(event) => continue,
            Followed::Event(event) => EventLine::of(event),
            Followed::Missed(count) => {
                let text = format!("{count} events were missed, because they were read too slowly");
                EventLine::of_command("missed", text, Some(*count))
            }
            _ => continue,
        };
        output.print_line(&line)?;
    }
}

/// The problems that existed when the command connected. The first look at the health repeats them.
#[derive(Default)]
struct KnownProblems {
    /// Whether the status of the first look is still to come.
    hides_status: bool,
    /// The members that they are about.
    members: Vec<Option<ActorPath>>,
}

impl KnownProblems {
    fn of(health: &Health) -> Self {
        let member = |reason: &HealthReason| places(reason).first().map(|path| (*path).clone());
        Self { hides_status: true, members: health.reasons().iter().map(member).collect() }
    }

    /// Returns whether an event reports what was known. Each problem is hidden once.
    fn hides(&mut self, event: &EventInfo) -> bool {
        match event.kind.as_str() {
            "health" => std::mem::take(&mut self.hides_status),
            "problem" => match self.members.iter().position(|member| *member == event.path) {
                Some(at) => {
                    self.members.swap_remove(at);
                    true
                }
                None => false,
            },
            _ => false,
        }
    }
}

/// One line of the output.
#[derive(Serialize)]
struct EventLine<'a> {
    version: Version,
    /// The number of the event on this connection. `None` for a line of the command itself.
    seq: Option<u64>,
    at: String,
    kind: &'a str,
    path: Option<&'a ActorPath>,
    text: String,
    /// How many events were missed.
    count: Option<u64>,
    #[serde(skip)]
    time: Timestamp,
}

impl<'a> EventLine<'a> {
    fn of(event: &'a EventInfo) -> Self {
        let time = Timestamp::from_millis(i64::try_from(event.unix_us / 1_000).unwrap_or(i64::MAX));
        let (seq, kind, path, text) = (Some(event.seq), event.kind.as_str(), event.path.as_ref(), event.text.clone());
        Self { version: Version, seq, at: rfc3339(time), kind, path, text, count: None, time }
    }

    fn of_command(kind: &'a str, text: String, count: Option<u64>) -> Self {
        let time: Timestamp = SystemTime::now().into();
        Self { version: Version, seq: None, at: rfc3339(time), kind, path: None, text, count, time }
    }

    fn colour(&self) -> Option<Colour> {
        match self.kind {
            "failed" | "gave_up" | "unhandled" | "problem" | "stuck_handler" | "wait_cycle" => Some(Colour::Red),
            "missed" | "gap" | "decided" | "dead_letter" | "restarted" | "suspended" => Some(Colour::Yellow),
            "problem_over" | "handler_returned" | "mailbox_drained" | "resumed" => Some(Colour::Green),
            _ => None,
        }
    }
}

impl Report for EventLine<'_> {
    fn text(&self, style: &Style) -> String {
        let kind = format!("{:16}", OneLine(self.kind).to_string());
        let kind = self.colour().map_or(kind.clone(), |colour| style.paint(colour, &kind));
        format!("{}  {kind}  {}\n", style.times.exact(self.time), OneLine(&self.text))
    }
}
