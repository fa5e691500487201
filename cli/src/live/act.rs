//! `pleach stop|restart|suspend|resume` and `pleach log-level`: orders to a running process, which
//! decides whether it allows them.

use super::args::{ActArgs, LogLevelArgs};
use super::member::line;
use crate::failure::{Failure, Status};
use crate::output::escape::OneLine;
use crate::output::{Output, Report, Style, Version};
use crate::runs::confirm::ask;
use crate::socket::Socket;
use pleach::inspect::{InspectAction, MemberInfo, Supervision};
use serde::Serialize;

/// Gives an order to a member, after it was confirmed.
pub async fn run(action: InspectAction, args: ActArgs, output: &Output) -> Result<(), Failure> {
    let ActArgs { process, path, confirm } = args;
    let mut socket = process.socket.open(process.timeout).await?;
    let member = socket.ask(async |client| client.member(&path).await).await?;
    check_allowed(&socket, action)?;
    // An older process does not know the question.
    let supervision = socket.ask(async |client| client.supervision(&path).await).await.unwrap_or_default();
    let consequence = consequence(action, &member, &supervision);
    let report = Order { socket: socket.path().name(), action, consequence, member, dry: confirm.dry_run };
    if !confirm.dry_run {
        // Between the question and the order another member can take the path, so the id is given.
        ask(&format!("{}.", report.will()), "yes", confirm)?;
        socket.ask(async |client| client.act(action, &path, Some(report.member.id)).await).await?;
    }
    output.print(&report)
}

/// Says before the question that the process will refuse. The process checks again.
fn check_allowed(socket: &Socket, action: InspectAction) -> Result<(), Failure> {
    let hello = socket.hello();
    if hello.actions.contains(&action) {
        return Ok(());
    }
    let allowed: Vec<&str> = hello.actions.iter().map(|action| word(*action)).collect();
    let allowed = if allowed.is_empty() { "nothing".to_string() } else { allowed.join(", ") };
    let text = format!("the process {} does not allow to {} members; it allows: {allowed}", OneLine(&hello.name), word(action));
    Err(Failure::new(Status::Refused, text).advice("the program must pass the action to `InspectOptions::allow`"))
}

/// Returns the action as a verb.
pub fn word(action: InspectAction) -> &'static str {
    match action {
        InspectAction::Stop => "stop",
        InspectAction::Restart => "restart",
        InspectAction::Suspend => "suspend",
        InspectAction::Resume => "resume",
        InspectAction::LogLevel => "set the log level",
        _ => "unknown",
    }
}

/// Says what an order does to a member, and to others as far as that is known.
pub fn consequence(action: InspectAction, member: &MemberInfo, supervision: &Supervision) -> String {
    supervision.consequences(action, member).join("; ")
}

/// An order, before or after it was given.
struct Order {
    socket: String,
    action: InspectAction,
    member: MemberInfo,
    consequence: String,
    dry: bool,
}

impl Order {
    fn will(&self) -> String {
        format!("{} {}: {}", word(self.action), self.member.path, self.consequence)
    }
}

impl Serialize for Order {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            version: Version,
            socket: &'a str,
            action: &'static str,
            is_dry_run: bool,
            consequence: &'a str,
            member: &'a MemberInfo,
        }
        let Self { socket, action, member, consequence, dry } = self;
        Json { version: Version, socket, action: word(*action), is_dry_run: *dry, consequence, member }.serialize(serializer)
    }
}

impl Report for Order {
    fn text(&self, _: &Style) -> String {
        let path = self.member.path.to_string();
        if self.dry {
            return format!("would {}\nnow: {} {}\n", OneLine(&self.will()), OneLine(&path), line(&self.member));
        }
        format!("ordered to {}\n", OneLine(&self.will()))
    }
}

/// Sets the log level of the process.
pub async fn set_log_level(args: LogLevelArgs, output: &Output) -> Result<(), Failure> {
    let mut socket = args.process.socket.open(args.process.timeout).await?;
    socket.ask(async |client| client.set_log_level(&args.level).await).await?;
    output.print(&LogLevel { version: Version, socket: socket.path().name(), level: args.level })
}

#[derive(Serialize)]
struct LogLevel {
    version: Version,
    socket: String,
    level: String,
}

impl Report for LogLevel {
    fn text(&self, _: &Style) -> String {
        format!("the log level is {} now\n", OneLine(&self.level))
    }
}
