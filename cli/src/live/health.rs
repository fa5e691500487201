//! `pleach health`: whether a process does its work, for people and for monitoring.

use super::args::HealthArgs;
use crate::failure::{Failure, Status};
use crate::output::escape::OneLine;
use crate::output::{Colour, Output, Report, Style, Version};
use pleach::inspect::{Health, HealthReason};
use serde::Serialize;
use serde_json::Value;

/// Prints the health of the process. Its exit code is that of the health.
pub async fn run(args: HealthArgs, output: &Output) -> Result<(), Failure> {
    let mut socket = args.process.socket.open(args.process.timeout).await?;
    let health = socket.ask(async |client| client.health().await).await?;
    let hello = socket.hello();
    let report = HealthReport {
        socket: socket.path().name(),
        name: hello.name.clone(),
        pid: hello.pid,
        asked_ready: args.ready,
        health,
    };
    output.print(&report)?;
    report.outcome()
}

struct HealthReport {
    socket: String,
    name: String,
    pid: u32,
    asked_ready: bool,
    health: Health,
}

impl HealthReport {
    /// The result was printed, so a failure has no text.
    fn outcome(&self) -> Result<(), Failure> {
        match &self.health {
            Health::Down => Err(Failure::new(Status::Unreachable, "")),
            health if self.asked_ready && health.is_ready() => Ok(()),
            Health::Healthy => Ok(()),
            _ => Err(Failure::new(Status::Unhealthy, "")),
        }
    }

    fn status(&self) -> &'static str {
        match &self.health {
            Health::Healthy => "healthy",
            Health::Down => "down",
            _ => "degraded",
        }
    }
}

#[derive(Serialize)]
struct HealthJson<'a> {
    version: Version,
    socket: &'a str,
    name: &'a str,
    pid: u32,
    status: &'static str,
    is_ready: bool,
    reasons: Vec<Value>,
}

impl Serialize for HealthReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { socket, name, pid, health, .. } = self;
        let (status, is_ready) = (self.status(), health.is_ready());
        let reasons = health.reasons().iter().map(reason_json).collect();
        HealthJson { version: Version, socket, name, pid: *pid, status, is_ready, reasons }.serialize(serializer)
    }
}

/// Returns the reason as the process sent it, with its sentence in `text`.
pub fn reason_json(reason: &HealthReason) -> Value {
    let mut value = serde_json::to_value(reason).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("sentence".to_string(), reason.to_string().into());
    }
    value
}

impl Report for HealthReport {
    fn text(&self, style: &Style) -> String {
        let colour = match &self.health {
            Health::Healthy => Colour::Green,
            Health::Down => Colour::Red,
            _ => Colour::Yellow,
        };
        let ready = if self.health.is_ready() { "ready" } else { "not ready" };
        let status = style.paint(colour, &format!("{}, {ready}", self.status()));
        let mut text = format!("{} (process {}): {status}\n", OneLine(&self.name), self.pid);
        if self.health == Health::Down {
            text.push_str("- the system is shutting down or has ended; route no work to it\n");
        }
        for reason in self.health.reasons() {
            text.push_str(&format!("- {}\n", OneLine(&reason.to_string())));
        }
        text
    }
}
