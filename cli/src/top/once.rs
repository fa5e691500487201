//! `pleach top --once`: one table, or one JSON object.

use super::args::{SortBy, TopArgs};
use super::columns::{count, per_second, state};
use super::feed::request;
use super::wish::ListWish;
use crate::failure::{Failure, Status};
use crate::output::table::{Cell, Column, Table};
use crate::output::times::{rfc3339, short};
use crate::output::{Colour, Output, Report, Style, Version};
use crate::socket::Socket;
use pleach::inspect::{Health, MemberInfo, Rates, Top};
use pleach::store::Timestamp;
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// The wait between two looks, without which there are no rates.
const RATES_AFTER: Duration = Duration::from_millis(600);

pub async fn run(mut socket: Socket, args: TopArgs, output: &Output) -> Result<(), Failure> {
    let wish = ListWish {
        by: args.by.wire(),
        below: args.below.or_else(super::view::user_path),
        contains: args.filter.unwrap_or_default(),
        limit: args.limit as usize,
    };
    let user = super::view::user_path().unwrap_or_default();
    let mut top = socket.ask(async |client| client.top(request(&wish)).await).await?;
    let mut rates = socket.ask(async |client| client.rates(&user).await).await?;
    if args.by == SortBy::Rate {
        tokio::time::sleep(args.interval.max(RATES_AFTER)).await;
        top = socket.ask(async |client| client.top(request(&wish)).await).await?;
        rates = socket.ask(async |client| client.rates(&user).await).await?;
    }
    if top.sums.is_none() && !wish.contains.is_empty() {
        let text = format!("the process at {} is older and cannot filter", socket.path().name());
        return Err(Failure::new(Status::Unreachable, text).advice("leave --filter out, or use `grep`"));
    }
    let health = socket.ask(async |client| client.health().await).await?;
    let hello = socket.hello();
    let report = TopReport {
        socket: socket.path().name(),
        name: hello.name.clone(),
        pid: hello.pid,
        at: SystemTime::now().into(),
        by: args.by,
        health,
        rates,
        top,
    };
    output.print(&report)
}

struct TopReport {
    socket: String,
    name: String,
    pid: u32,
    at: Timestamp,
    by: SortBy,
    health: Health,
    rates: Rates,
    top: Top,
}

#[derive(Serialize)]
struct TopJson<'a> {
    version: Version,
    socket: &'a str,
    name: &'a str,
    pid: u32,
    at: String,
    status: &'static str,
    problems: usize,
    by: &'static str,
    compared: u64,
    is_complete: bool,
    sums: Option<pleach::inspect::TopSums>,
    rates: Rates,
    rows: Vec<RowJson<'a>>,
}

/// A member as the protocol has it, and its rates.
#[derive(Serialize)]
struct RowJson<'a> {
    #[serde(flatten)]
    member: &'a MemberInfo,
    accepted_per_s: Option<f64>,
    handled_per_s: Option<f64>,
}

impl Serialize for TopReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.top.rows.iter().map(|row| RowJson {
            member: &row.member,
            accepted_per_s: row.accepted_per_s,
            handled_per_s: row.handled_per_s,
        });
        TopJson {
            version: Version,
            socket: &self.socket,
            name: &self.name,
            pid: self.pid,
            at: rfc3339(self.at),
            status: status(&self.health),
            problems: self.health.reasons().len(),
            by: self.by.name(),
            compared: self.top.compared,
            is_complete: self.top.is_complete,
            sums: self.top.sums,
            rates: self.rates,
            rows: rows.collect(),
        }
        .serialize(serializer)
    }
}

impl Report for TopReport {
    const ITEMS: Option<&'static str> = Some("rows");

    fn text(&self, style: &Style) -> String {
        let Self { name, pid, top, .. } = self;
        let mut text = format!("{name} (pid {pid}): {} as of {}", status(&self.health), style.times.exact(self.at));
        if let Some(sums) = top.sums {
            text.push_str(&format!("; {} queued in {} actors", count(sums.queued), count(sums.members)));
        }
        if let Some(rates) = self.rates.last_10s {
            text.push_str(&format!("; {} handled/s, {} failed/s", per_second(rates.handled), per_second(rates.failed)));
        }
        let columns = [
            Column::shrinks("MEMBER"),
            Column::number("QUEUED"),
            Column::number("RATE/S").may_hide(),
            Column::number("HANDLING").may_hide(),
            Column::number("RESTARTS").may_hide(),
            Column::number("FAILED").may_hide(),
            Column::number("CHILDREN").may_hide(),
            Column::fixed("STATE").may_hide(),
        ];
        let mut table = Table::new(columns);
        for row in &top.rows {
            let member = &row.member;
            let actor = member.actor.as_ref();
            let queued = actor.map_or_else(String::new, |actor| actor.queued.to_string());
            let restarts = member.restarts.map_or_else(String::new, |restarts| match restarts.allowed {
                Some(allowed) => format!("{}/{allowed}", restarts.used),
                None => restarts.used.to_string(),
            });
            table.row([
                member.path.to_string().into(),
                if member.is_full() { Cell::painted(&queued, Colour::Red) } else { queued.into() },
                row.handled_per_s.map_or_else(String::new, per_second).into(),
                member.handling_for().map_or_else(String::new, short).into(),
                restarts.into(),
                actor.map_or_else(String::new, |actor| actor.counts.failed.to_string()).into(),
                member.children.to_string().into(),
                state(&member.activity).to_string().into(),
            ]);
        }
        format!("{}\n{}", crate::output::escape::OneLine(&text), table.render(style))
    }
}

fn status(health: &Health) -> &'static str {
    match health {
        Health::Healthy => "healthy",
        Health::Down => "down",
        _ => "degraded",
    }
}
