//! `pleach why`: why a member of a process does not continue, the deepest cause first.

use super::args::{Place, WhyArgs};
use super::health::reason_json;
use crate::failure::{Failure, Status};
use crate::output::escape::OneLine;
use crate::output::{Output, Report, Style, Version};
use crate::socket::{SocketPath, parse_path};
use pleach::inspect::Why;
use serde::Serialize;
use std::time::Duration;

pub async fn run(args: WhyArgs, output: &Output) -> Result<(), Failure> {
    match args.target {
        Place::Socket(socket) => of_member(&socket, &args.name, args.timeout, output).await,
        Place::Store(store) => {
            let text = format!("{} is a store, and this word looks at processes", OneLine(&store.name()));
            let show = format!("pleach runs show {} {}", OneLine(&store.name()), OneLine(&args.name));
            Err(Failure::new(Status::Usage, text).advice(format_args!("for a run use: {show}")))
        }
    }
}

async fn of_member(socket: &SocketPath, name: &str, limit: Duration, output: &Output) -> Result<(), Failure> {
    let path = parse_path(name).map_err(Failure::usage)?;
    let mut socket = socket.open(limit).await?;
    let why = socket.ask(async |client| client.why(&path).await).await?;
    output.print(&WhyReport { why })
}

struct WhyReport {
    why: Why,
}

impl Serialize for WhyReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            version: Version,
            chain: &'a [pleach::inspect::MemberInfo],
            is_cycle: bool,
            reasons: Vec<serde_json::Value>,
        }
        let Why { chain, is_cycle, reasons, .. } = &self.why;
        let reasons = reasons.iter().map(reason_json).collect();
        Json { version: Version, chain, is_cycle: *is_cycle, reasons }.serialize(serializer)
    }
}

impl Report for WhyReport {
    fn text(&self, _: &Style) -> String {
        let members = self.why.chain.iter().rev().map(|member| format!("{}\n", OneLine(&member.to_string())));
        let reasons = self.why.reasons.iter().map(|reason| format!("- {}\n", OneLine(&reason.to_string())));
        members.chain(reasons).collect()
    }
}
