//! [`DemoReport`]: the account at the end of the show.

use super::narrator::counted;
use super::orders::Audit;
use crate::demo::protocol::{Account, FinalAccount};
use crate::failure::{Failure, Status};
use crate::output::{Output, Report, Style, Version};
use serde::{Serialize, Serializer};
use std::fmt::Write as _;

/// What became of every message, failure and charge.
pub struct DemoReport {
    pub seconds: f64,
    pub seed: u64,
    /// The last accounts of the workers that were killed.
    pub killed: Vec<Account>,
    pub account: FinalAccount,
    pub audit: Audit,
}

#[derive(Serialize)]
struct ReportJson<'a> {
    version: Version,
    seed: u64,
    seconds: f64,
    actors: Vec<ActorJson<'a>>,
    failures: u64,
    decisions: u64,
    killed_workers: usize,
    lost_with_killed_workers: u64,
    orders: OrdersJson,
    charges: u64,
    repeated_charges: u64,
    fault: Option<String>,
}

#[derive(Serialize)]
struct ActorJson<'a> {
    path: &'a str,
    sent: u64,
    returned: u64,
    accepted: u64,
    handled: u64,
    failed: u64,
    dead_lettered: u64,
    restarts: u64,
}

#[derive(Serialize)]
struct OrdersJson {
    shipped: u64,
    under_way: u64,
    waiting: u64,
    failed: u64,
}

impl DemoReport {
    /// Prints the account. Fails if it does not add up.
    pub fn print(&self, output: &Output) -> Result<(), Failure> {
        output.print(self)?;
        let failed = |fault| Failure::new(Status::Failed, format_args!("the account of the demo does not add up: {fault}"));
        self.fault().map_or(Ok(()), |fault| Err(failed(fault)))
    }

    /// Returns the first thing that does not add up, if any.
    pub fn fault(&self) -> Option<String> {
        self.account.fault().or_else(|| self.audit.fault.clone())
    }
}

impl Serialize for DemoReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let actors = self.account.actors.iter().map(|actor| ActorJson {
            path: &actor.path,
            sent: actor.account.sent,
            returned: actor.account.returned,
            accepted: actor.account.counts.accepted,
            handled: actor.account.counts.handled,
            failed: actor.account.counts.failed,
            dead_lettered: actor.account.counts.dead_lettered,
            restarts: actor.account.restarts,
        });
        let Audit { shipped, under_way, waiting, failed, charged, repeated, .. } = self.audit;
        let json = ReportJson {
            version: Version,
            seed: self.seed,
            seconds: self.seconds,
            actors: actors.collect(),
            failures: self.account.total.failures,
            decisions: self.account.decided,
            killed_workers: self.killed.len(),
            lost_with_killed_workers: self.killed.iter().map(Account::in_flight).sum(),
            orders: OrdersJson { shipped, under_way, waiting, failed },
            charges: charged,
            repeated_charges: repeated,
            fault: self.fault(),
        };
        json.serialize(serializer)
    }
}

impl Report for DemoReport {
    const ITEMS: Option<&'static str> = None;

    fn text(&self, _style: &Style) -> String {
        let mut text = format!("The account of {:.0} s (seed {}): what became of every message\n\n", self.seconds, self.seed);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "actor                        sent  returned   accepted = handled + failed + dead letters   restarts"
        );
        for actor in &self.account.actors {
            write_row(&mut text, &actor.path, &actor.account);
        }
        write_row(&mut text, "total", &self.account.total);
        self.write_rest(&mut text);
        text
    }
}

impl DemoReport {
    fn write_rest(&self, text: &mut String) {
        let lost: u64 = self.killed.iter().map(Account::in_flight).sum();
        if !self.killed.is_empty() {
            let _ = writeln!(
                text,
                "\nWorker processes killed before: {}. {} in their mailboxes ended with them; the orders went on.",
                self.killed.len(),
                counted(lost, "message")
            );
        }
        let failures = self.account.total.failures;
        let _ = writeln!(
            text,
            "\n{}, and {} of a supervisor.",
            counted(failures, "failure"),
            counted(self.account.decided, "decision")
        );
        let Audit { shipped, under_way, waiting, failed, charged, repeated, .. } = &self.audit;
        let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
        let _ = writeln!(
            text,
            "{}: {shipped} shipped, {under_way} under way, {waiting} waiting for an approval{failed}.",
            counted(self.audit.orders(), "order")
        );
        let again = match repeated {
            0 => "none was asked for twice".to_string(),
            _ => format!("{repeated} asked for again after a kill, with the same key, and not made again"),
        };
        let _ = writeln!(text, "{}, each order once; {again}.", counted(*charged, "charge"));
        if self.fault().is_none() {
            text.push_str("Every message, every failure and every charge is accounted for.\n");
        }
    }
}

fn write_row(text: &mut String, name: &str, account: &Account) {
    let Account { sent, returned, counts, restarts, .. } = account;
    let _ = writeln!(
        text,
        "{name:25} {sent:>7} {returned:>9} {:>10} = {:>7} + {:>6} + {:>12}   {restarts:>8}",
        counts.accepted, counts.handled, counts.failed, counts.dead_lettered
    );
}
