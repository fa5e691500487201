//! [`View`]: everything that the page can look at, with its parameters.
//!
//! A view is the same value in a single request, in a stream and in a download. Equal views share
//! one computation, so they can be compared and hashed. Unknown parameters are refused.

use serde::{Deserialize, Serialize};

/// Something to look at. `docs/console-api.md` describes the answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "view", rename_all = "snake_case")]
#[non_exhaustive]
pub enum View {
    /// What is wrong now, and what to do.
    Home(Nothing),
    /// A window of the tree of members.
    Tree(TreeWindow),
    /// The members with the most of something.
    Top(TopMembers),
    /// Members that call for a look.
    NotWell(NotWell),
    /// Everything about one member.
    Member(MemberAt),
    /// Failures, decisions, restarts and ends at and below a member, the newest first.
    Story(Story),
    /// Failures or dead letters, grouped.
    Failures(FailureGroups),
    /// The last minutes of one member, as points for plots.
    Ring(MemberAt),
    /// A page of runs.
    Runs(Runs),
    /// Runs, counted by group.
    RunGroups(RunGroups),
    /// Everything about one run.
    Run(RunAt),
    /// A page of the records of a run.
    Timeline(Timeline),
    /// One level of a state or a question.
    Value(ValueAt),
    /// How two states differ.
    Diff(Diff),
    /// What waits for people.
    Waiting(Waiting),
    /// The workers that hold runs of a store.
    Workers(StoreOnly),
    /// Which runs a new program would not serve.
    Deploy(Deploy),
    /// The drawing of a graph, with the positions of a run.
    Graph(GraphOf),
    /// What was ordered through this console, and what happened.
    Actions(ActionLog),
    /// A bulk action that was started.
    Bulk(BulkAt),
    /// A test that starts where something failed.
    Test(TestFrom),
}

/// The parameters of a view without any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// A window of the tree: some rows, with these branches open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeWindow {
    /// The key of the process.
    pub process: String,
    /// Where the tree starts. Default: the root.
    #[serde(default)]
    pub path: Option<String>,
    /// The paths of the open branches, at most 1,000.
    #[serde(default)]
    pub open: Vec<String>,
    /// The first row.
    #[serde(default)]
    pub first: u64,
    /// The number of rows, at most 200. Default: 60.
    #[serde(default)]
    pub count: Option<u64>,
}

/// The members with the most of something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopMembers {
    /// The key of the process.
    pub process: String,
    /// Where to start. Default: `/user`.
    #[serde(default)]
    pub path: Option<String>,
    /// `queued`, `rate`, `restarts`, `handling`, `failed` or `children`. Default: `queued`.
    #[serde(default)]
    pub by: Option<String>,
    /// Only members whose path contains this text.
    #[serde(default)]
    pub contains: Option<String>,
    /// At most 200. Default: 50.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// A page of members that call for a look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotWell {
    /// The key of the process.
    pub process: String,
    /// Where to start. Default: the root.
    #[serde(default)]
    pub path: Option<String>,
    /// Where to continue.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// A member of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberAt {
    /// The key of the process.
    pub process: String,
    /// The path of the member.
    pub path: String,
}

/// A page of what happened at and below a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Story {
    /// The key of the process.
    pub process: String,
    /// The path of the member. Default: the root.
    #[serde(default)]
    pub path: Option<String>,
    /// Only entries before this number.
    #[serde(default)]
    pub before: Option<u64>,
    /// At most 200. Default: 50.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// Failures or dead letters, grouped by member, message type and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureGroups {
    /// The key of the process.
    pub process: String,
    /// `failures` or `dead_letters`. Default: `failures`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only groups whose path or reason contains this text.
    #[serde(default)]
    pub contains: Option<String>,
    /// At most 200. Default: 50.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// Which runs of a store are listed or counted. The names are those of `pleach runs list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filters {
    /// Only runs with one of these statuses.
    #[serde(default)]
    pub status: Vec<String>,
    /// Only runs that failed: short for the status `failed`.
    #[serde(default)]
    pub failed: bool,
    /// Only runs of this graph.
    #[serde(default)]
    pub graph: Option<String>,
    /// Only runs with this tag, `key=value`.
    #[serde(default)]
    pub tag: Option<String>,
    /// Only runs whose id begins with this text.
    #[serde(default)]
    pub id_prefix: Option<String>,
    /// Only runs that were created since: a duration such as `1h`, or a time.
    #[serde(default)]
    pub since: Option<String>,
    /// Only runs that were created before: a duration or a time.
    #[serde(default)]
    pub before: Option<String>,
}

impl Filters {
    /// Returns whether runs with this status are asked for.
    pub(crate) fn has_status(&self, status: &str) -> bool {
        if self.failed {
            return status == "failed";
        }
        self.status.is_empty() || self.status.iter().any(|asked| asked.replace(['-', '_'], " ") == status)
    }
}

/// A page of runs, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runs {
    /// The key of the store.
    pub store: String,
    /// Which runs.
    #[serde(default)]
    pub filters: Filters,
    /// Where to continue: the `next` of the page before.
    #[serde(default)]
    pub after: Option<String>,
    /// At most 200. Default: 50.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// Runs, counted by group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunGroups {
    /// The key of the store.
    pub store: String,
    /// `status`, `graph` or `error`.
    pub group_by: String,
    /// Which runs.
    #[serde(default)]
    pub filters: Filters,
}

/// A run of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunAt {
    /// The key of the store.
    pub store: String,
    /// The id of the run.
    pub run: String,
}

/// A page of the records of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// The key of the store.
    pub store: String,
    /// The id of the run.
    pub run: String,
    /// Records before this one, the newest first. Default: from the last one on.
    #[serde(default)]
    pub before: Option<u64>,
    /// Records from this one on, the oldest first.
    #[serde(default)]
    pub from: Option<u64>,
    /// At most 500. Default: 100.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// One level of a state or a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueAt {
    /// The key of the store.
    pub store: String,
    /// The id of the run.
    pub run: String,
    /// The record with the state. Default: the last one.
    #[serde(default)]
    pub record: Option<u64>,
    /// The key of a question. Default: the state.
    #[serde(default)]
    pub question: Option<String>,
    /// A JSON pointer into the value.
    #[serde(default)]
    pub pointer: String,
    /// The first entry of an object or array.
    #[serde(default)]
    pub first: u64,
}

/// How the states at two records differ, of one run or two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diff {
    /// The key of the store.
    pub store: String,
    /// The id of the run.
    pub run: String,
    /// The record with the first state.
    pub from: u64,
    /// The record with the second state.
    pub to: u64,
    /// The run of the second state. Default: the same run.
    #[serde(default)]
    pub other_run: Option<String>,
}

/// A page of what waits for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// The key of the store.
    pub store: String,
    /// Where to continue.
    #[serde(default)]
    pub after: Option<String>,
    /// The number of runs, at most 100. Default: 25.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// A store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreOnly {
    /// The key of the store.
    pub store: String,
}

/// Which runs a new program would not serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deploy {
    /// The key of the store.
    pub store: String,
    /// The exported graphs of the new program, as text. Default: those of the program that the
    /// console runs in.
    #[serde(default)]
    pub graphs: Option<String>,
    /// The exported graphs of the present program, as text.
    #[serde(default)]
    pub previous: Option<String>,
}

/// The drawing of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphOf {
    /// The key of the store.
    pub store: String,
    /// The run whose graph is drawn and marked.
    pub run: String,
    /// The exported graphs, as text. Default: those that the console knows.
    #[serde(default)]
    pub graphs: Option<String>,
}

/// A page of what was ordered through this console.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionLog {
    /// Only entries before this number.
    #[serde(default)]
    pub before: Option<u64>,
    /// At most 200. Default: 50.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// A bulk action that was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BulkAt {
    /// Its id.
    pub bulk: String,
}

/// Where a test starts: at a record of a run, or with a failure of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestFrom {
    /// The key of the store, for a run.
    #[serde(default)]
    pub store: Option<String>,
    /// The id of the run.
    #[serde(default)]
    pub run: Option<String>,
    /// The record of the run.
    #[serde(default)]
    pub record: Option<u64>,
    /// The key of the process, for a member.
    #[serde(default)]
    pub process: Option<String>,
    /// The path of the member.
    #[serde(default)]
    pub path: Option<String>,
    /// The number of the failure in the story of the process.
    #[serde(default)]
    pub seq: Option<u64>,
}
