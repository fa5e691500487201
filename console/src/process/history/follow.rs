//! The task that hears the events of a process, on a connection of its own, as long as views ask.

use super::{History, Readiness, past, unix_micros};
use crate::failure::Failure;
use crate::process::target::within;
use pleach::inspect::{Client, Followed, Hello};
use std::pin::pin;
use std::sync::Weak;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// What is followed. Each of these costs the process nothing until it happens.
const KINDS: [&str; 7] = ["failures", "unhandled", "dead_letters", "lifecycle", "decisions", "gave_up", "wait_cycles"];

/// The wait between two attempts to connect.
const CONNECT_AGAIN: Duration = Duration::from_millis(500);

/// The connection that was lost.
struct Lost {
    hello: Hello,
    at: Instant,
    /// When the process was heard last.
    heard_us: u64,
}

/// The past is read from a little before the connection was lost.
const OVERLAP_US: u64 = 1_000_000;

/// Hears events until nobody has asked for long, or the history is dropped.
pub(super) async fn follow(history: Weak<History>, ready: watch::Sender<Readiness>) {
    let mut lost: Option<Lost> = None;
    loop {
        let Some(known) = history.upgrade() else { return };
        let begun = begin(&known, lost.as_ref()).await;
        drop(known);
        match begun {
            Ok(client) => {
                ready.send_replace(Some(Ok(())));
                let hello = client.hello().clone();
                let Some(heard_us) = hear(&history, client).await else { return };
                lost = Some(Lost { hello, at: Instant::now(), heard_us });
            }
            // Without a first connection nothing is known. Later, what was heard stays visible.
            Err(failure) if lost.is_none() => {
                ready.send_replace(Some(Err(failure)));
            }
            Err(_) => {}
        }
        let Some(known) = history.upgrade() else { return };
        if known.end_unused().is_none() {
            return;
        }
        drop(known);
        sleep(CONNECT_AGAIN).await;
    }
}

/// Connects, follows, and adds what happened before.
async fn begin(history: &History, lost: Option<&Lost>) -> Result<Client, Failure> {
    let mut client = history.link.connect().await?;
    let before_us = unix_micros();
    within(client.follow(Some(&KINDS))).await?;
    let past = within(past::read(&mut client, lost.map(|lost| lost.heard_us.saturating_sub(OVERLAP_US)))).await?;
    let mut heard = history.heard();
    if let Some(lost) = lost {
        heard.add_gap(gap_text(lost, client.hello()));
    }
    heard.add_past(past, before_us);
    Ok(client)
}

fn gap_text(lost: &Lost, hello: &Hello) -> String {
    let for_seconds = lost.at.elapsed().as_secs_f64();
    let process = if lost.hello.pid == hello.pid && lost.hello.name == hello.name {
        "the same process".to_string()
    } else {
        format!("another process ({})", hello.pid)
    };
    format!(
        "the connection was lost for {for_seconds:.1} s and {process} answers again; \
         of that time only the last failure of each member is known"
    )
}

/// Adds events until the connection is lost. Returns when the process was heard last, or `None` if
/// nobody needs the events any more.
async fn hear(history: &Weak<History>, mut client: Client) -> Option<u64> {
    let mut heard_us = unix_micros();
    loop {
        let followed = {
            let mut next = pin!(client.next_event());
            loop {
                let until = history.upgrade()?.end_unused()?;
                tokio::select! {
                    followed = &mut next => break followed,
                    () = sleep_until(until) => {}
                }
            }
        };
        let known = history.upgrade()?;
        match followed {
            Ok(Followed::Event(event)) => known.heard().hear(event),
            Ok(Followed::Missed(count)) => known.heard().miss(count),
            Ok(_) => {}
            Err(_) => return Some(heard_us),
        }
        heard_us = unix_micros();
    }
}
