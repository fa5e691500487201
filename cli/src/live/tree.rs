//! `pleach tree`: the members of a process, by pages.

use super::args::{TreeArgs, TreeOutput};
use super::health::reason_json;
use super::{tree_drawing, tree_text};
use crate::failure::{Failure, Status};
use crate::output::{Output, Report, Style, Version, write_all};
use crate::socket::Socket;
use pleach::actor::ActorPath;
use pleach::inspect::{Cursor, HealthReason, MemberInfo, SnapshotRequest};
use serde::Serialize;
use std::time::Duration;

/// The members of one page of the protocol.
const PAGE: usize = 1_000;

/// How many requests the first look at handlers takes at most. One covers up to 50,000 members.
const FIRST_LOOK_REQUESTS_MAX: usize = 40;

/// A little longer than a handler may take before it calls for a look.
const SLOW_AFTER: Duration = Duration::from_millis(1_050);

/// How many ancestors of listed members are asked for. Above that, only their names are shown.
const ANCESTORS_MAX: usize = 1_000;

pub async fn run(args: TreeArgs, output: &Output) -> Result<(), Failure> {
    if output.is_json() && matches!(args.output, TreeOutput::Mermaid | TreeOutput::Dot) {
        return Err(Failure::usage("a drawing has no JSON; leave out --json, --fields and --jq, or --output"));
    }
    let mut socket = args.process.socket.open(args.process.timeout).await?;
    let mut tree = Tree::fetch(&mut socket, &args).await?;
    if !output.is_json() {
        tree.add_ancestors(&mut socket).await?;
    }
    match args.output {
        TreeOutput::Text | TreeOutput::Json => output.print(&tree),
        TreeOutput::Mermaid => write_all(&tree_drawing::mermaid(&tree)),
        TreeOutput::Dot => write_all(&tree_drawing::dot(&tree)),
    }
}

/// The listed members, and what is needed to show them as a tree.
pub struct Tree {
    pub socket: String,
    pub name: String,
    pub pid: u32,
    pub start: ActorPath,
    /// In the order of the tree, parents first.
    pub rows: Vec<Row>,
    pub next: Option<Cursor>,
    /// The options that the command for the next page repeats.
    pub options: String,
    pub not_well: bool,
    /// Whether no member was left out before the end of the list.
    pub is_gapless: bool,
    /// With `--not-well`: the problems of the system, also those of members that have ended.
    pub reasons: Vec<HealthReason>,
}

/// A line of the tree.
pub struct Row {
    pub path: ActorPath,
    /// `None` for an ancestor that has ended meanwhile, or was not asked for.
    pub member: Option<MemberInfo>,
    /// Whether the row is only there to show where the rows below it are.
    pub is_ancestor: bool,
}

impl Tree {
    /// Asks for pages until the limit is reached or the tree ends.
    async fn fetch(socket: &mut Socket, args: &TreeArgs) -> Result<Self, Failure> {
        let mut request = SnapshotRequest::new();
        request.path = Some(args.path.clone());
        request.depth = args.depth;
        request.kinds = (!args.kinds.is_empty()).then(|| args.kinds.clone());
        request.not_well = args.not_well;
        request.cursor.clone_from(&args.after);
        if args.not_well && !args.once && args.after.is_none() {
            look_at_handlers(socket, &args.path).await?;
        }
        let (limit, mut rows) = (args.limit as usize, Vec::new());
        loop {
            request.limit = Some((limit - rows.len()).min(PAGE));
            let page = socket.ask(async |client| client.snapshot(request.clone()).await).await?;
            let members = page.members.into_iter();
            rows.extend(members.map(|member| Row { path: member.path.clone(), is_ancestor: false, member: Some(member) }));
            request.cursor = page.next;
            if request.cursor.is_none() || rows.len() >= limit {
                break;
            }
        }
        let reasons = match args.not_well {
            true => socket.ask(async |client| client.health().await).await?.reasons().to_vec(),
            false => Vec::new(),
        };
        Ok(Self {
            socket: socket.path().name(),
            name: socket.hello().name.clone(),
            pid: socket.hello().pid,
            start: args.path.clone(),
            rows,
            next: request.cursor,
            options: args.repeated(),
            not_well: args.not_well,
            is_gapless: !args.not_well && args.kinds.is_empty() && args.after.is_none(),
            reasons,
        })
    }

    /// Adds the ancestors of the rows, from the start on, where they are not listed.
    async fn add_ancestors(&mut self, socket: &mut Socket) -> Result<(), Failure> {
        if self.is_gapless {
            return Ok(());
        }
        let (mut open, mut asked): (Vec<ActorPath>, usize) = (Vec::new(), 0);
        for row in std::mem::take(&mut self.rows) {
            open.retain(|path| row.path.segments().starts_with(path.segments()));
            for path in missing(&self.start, open.last(), &row.path) {
                asked += 1;
                let member = if asked <= ANCESTORS_MAX { member(socket, &path).await? } else { None };
                self.rows.push(Row { path: path.clone(), member, is_ancestor: true });
                open.push(path);
            }
            open.push(row.path.clone());
            self.rows.push(row);
        }
        Ok(())
    }

    /// Returns how many levels a row is below the start.
    pub fn depth(&self, path: &ActorPath) -> usize {
        path.segments().len().saturating_sub(self.start.segments().len())
    }
}

/// Lets the process look at the handlers below `path`, and waits until the slow ones are known. It
/// measures how long a handler runs from the first look at it.
pub async fn look_at_handlers(socket: &mut Socket, path: &ActorPath) -> Result<(), Failure> {
    let mut request = SnapshotRequest::new();
    (request.path, request.not_well, request.limit) = (Some(path.clone()), true, Some(PAGE));
    for _ in 0..FIRST_LOOK_REQUESTS_MAX {
        request.cursor = socket.ask(async |client| client.snapshot(request.clone()).await).await?.next;
        if request.cursor.is_none() {
            break;
        }
    }
    tokio::time::sleep(SLOW_AFTER).await;
    Ok(())
}

/// Returns the ancestors of `path` below `shown`, the lowest one that is shown, the highest first.
fn missing(start: &ActorPath, shown: Option<&ActorPath>, path: &ActorPath) -> Vec<ActorPath> {
    let first = shown.map_or(start.segments().len(), |shown| shown.segments().len() + 1);
    let mut missing = Vec::new();
    let mut above = path.parent();
    while let Some(path) = above.filter(|path| path.segments().len() >= first) {
        above = path.parent();
        missing.push(path);
    }
    missing.reverse();
    missing
}

/// Asks for one member. `None`: it has ended.
async fn member(socket: &mut Socket, path: &ActorPath) -> Result<Option<MemberInfo>, Failure> {
    match socket.ask(async |client| client.member(path).await).await {
        Ok(member) => Ok(Some(member)),
        Err(failure) if failure.status == Status::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

#[derive(Serialize)]
struct TreeJson<'a> {
    version: Version,
    socket: &'a str,
    name: &'a str,
    pid: u32,
    path: &'a ActorPath,
    members: Vec<&'a MemberInfo>,
    next: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasons: Option<Vec<serde_json::Value>>,
}

impl Serialize for Tree {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = self.rows.iter().filter(|row| !row.is_ancestor).filter_map(|row| row.member.as_ref()).collect();
        TreeJson {
            version: Version,
            socket: &self.socket,
            name: &self.name,
            pid: self.pid,
            path: &self.start,
            members,
            next: self.next.as_ref().map(ToString::to_string),
            reasons: self.not_well.then(|| self.reasons.iter().map(reason_json).collect()),
        }
        .serialize(serializer)
    }
}

impl Report for Tree {
    const ITEMS: Option<&'static str> = Some("members");

    fn text(&self, style: &Style) -> String {
        tree_text::text(self, style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ancestors_begin_below_what_is_shown() {
        let path = |text: &str| text.parse::<ActorPath>().unwrap();
        let between = |start: &str, shown: Option<&str>, to: &str| {
            missing(&path(start), shown.map(path).as_ref(), &path(to)).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(between("/", None, "/user/a/b"), ["/", "/user", "/user/a"]);
        assert_eq!(between("/user", None, "/user/a/b"), ["/user", "/user/a"]);
        assert_eq!(between("/", Some("/user"), "/user/a/b"), ["/user/a"]);
        assert!(between("/", Some("/user/a"), "/user/a/b").is_empty());
        assert!(between("/user", None, "/user").is_empty());
    }
}
