//! The show as plain lines, for a pipe or a file.
//!
//! Without keys, the show itself does what a user would do: it approves orders and kills the worker
//! once.

use super::Stage;
use super::narrator::counted;
use crate::args::DemoArgs;
use crate::failure::{Failure, Status};
use crate::output::{Output, write_all};
use crate::runs::quoted;
use std::time::{Duration, Instant};

/// How long the show lasts without `--duration`.
const DURATION_DEFAULT: Duration = Duration::from_secs(20);

/// The parts of the duration after which the worker is killed, and orders are approved.
const KILL_AT: f64 = 0.5;
const APPROVE_AT: f64 = 0.35;

/// A shorter show has no time for a kill: the next worker would hardly begin.
const KILL_FROM: Duration = Duration::from_secs(3);

/// The time between two lines about the state.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// How long the loop sleeps at most.
const TICK: Duration = Duration::from_millis(100);

pub async fn run(mut stage: Stage, args: &DemoArgs, output: &Output) -> Result<(), Failure> {
    let mut plain = Plain { is_quiet: output.is_json(), written: 0, next_status: STATUS_EVERY };
    plain.intro(&stage, args.duration.unwrap_or(DURATION_DEFAULT))?;
    stage.start()?;
    let ending = plain.play(&mut stage, args.duration.unwrap_or(DURATION_DEFAULT)).await?;
    let report = stage.finish().await?;
    plain.write("\n")?;
    report.print(output)?;
    ending.map_or(Ok(()), |status| Err(Failure::new(status, "")))
}

/// The lines that were written.
struct Plain {
    /// Only the account is written, as JSON.
    is_quiet: bool,
    /// How many lines of the narrator were written.
    written: usize,
    next_status: Duration,
}

impl Plain {
    fn write(&self, text: &str) -> Result<(), Failure> {
        if self.is_quiet { Ok(()) } else { write_all(text) }
    }

    fn intro(&self, stage: &Stage, duration: Duration) -> Result<(), Failure> {
        let places = stage.folder().places();
        let path = |path: std::path::PathBuf| quoted(&path.display().to_string());
        self.write(&format!(
            "pleach demo: a shop of supervised actors and durable orders, for {} s (seed {}).\n\
             Look at it from a second terminal:\n  pleach top {}\n  pleach runs list {}\n{}\n",
            duration.as_secs_f64(),
            stage.seed(),
            path(places.socket()),
            path(places.store()),
            stage.picture.console.as_ref().map(|url| format!("Or in the browser:\n  {url}\n")).unwrap_or_default(),
        ))
    }

    /// Shows everything until the time is over, or a signal with its exit code ends the show.
    async fn play(&mut self, stage: &mut Stage, duration: Duration) -> Result<Option<Status>, Failure> {
        let ends = stage.picture.begun + duration;
        let part = |part: f64| stage.picture.begun + duration.mul_f64(part);
        let (mut kill_at, approve_at) = ((duration >= KILL_FROM).then(|| part(KILL_AT)), part(APPROVE_AT));
        let mut signals = std::pin::pin!(ended_by_signal());
        let mut approved_at: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if now >= ends {
                return Ok(None);
            }
            if stage.restart_at().is_some_and(|at| now >= at) {
                stage.start()?;
            }
            if kill_at.is_some_and(|at| now >= at) && stage.picture.worker == super::WorkerState::Running {
                stage.kill_worker();
                kill_at = None;
            }
            let may_approve = now >= approve_at && approved_at.is_none_or(|at| now - at > Duration::from_secs(2));
            if may_approve && stage.approve() {
                approved_at = Some(now);
            }
            tokio::select! {
                update = stage.updates.recv() => if let Some(update) = update { stage.apply(update)? },
                () = tokio::time::sleep(TICK) => {}
                status = &mut signals => return Ok(Some(status)),
            }
            self.tell(stage)?;
        }
    }

    /// Writes what is new.
    fn tell(&mut self, stage: &Stage) -> Result<(), Failure> {
        let lines = &stage.picture.lines;
        // Old lines are forgotten at the front.
        let new = stage.picture.said - self.written.min(stage.picture.said);
        for line in lines.iter().skip(lines.len().saturating_sub(new)) {
            self.write(&format!("{:5.1} s  {}\n", line.at.as_secs_f64(), line.text))?;
        }
        self.written = stage.picture.said;
        let at = stage.picture.begun.elapsed();
        if at >= self.next_status {
            self.next_status += STATUS_EVERY;
            let account = &stage.picture.account;
            self.write(&format!(
                "{:5.1} s  {:.0} messages/s: {} accepted = {} handled + {} failed + {} dead-lettered + {} in flight; {}\n",
                at.as_secs_f64(),
                stage.picture.rate(),
                account.counts.accepted,
                account.counts.handled,
                account.counts.failed,
                account.counts.dead_lettered,
                account.in_flight(),
                counted(account.restarts, "restart"),
            ))?;
        }
        Ok(())
    }
}

/// Waits for a signal that ends the show, and returns its exit code.
#[cfg(unix)]
async fn ended_by_signal() -> Status {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = async |kind, status| match signal(kind) {
        Ok(mut signal) => signal.recv().await.map_or(status, |()| status),
        // Then the signal has its usual effect.
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        status = wait(SignalKind::interrupt(), Status::Interrupt) => status,
        status = wait(SignalKind::terminate(), Status::Terminate) => status,
        status = wait(SignalKind::hangup(), Status::HangUp) => status,
    }
}

#[cfg(not(unix))]
async fn ended_by_signal() -> Status {
    match tokio::signal::ctrl_c().await {
        Ok(()) => Status::Interrupt,
        Err(_) => std::future::pending().await,
    }
}
