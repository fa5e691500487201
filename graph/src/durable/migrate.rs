//! `Migrations`: how runs of earlier graph versions continue: new states, new node names.

use crate::compile::plan::{BranchHeads, OutEdge, Plan, PlanFanOut};
use crate::define::shape::{END, Target};
use crate::error::{MismatchError, ResumeError, RunFault};
use crate::log::frontier::undone_at;
use crate::log::snapshot::{RunSnapshot, SnapshotState};
use crate::store::{GraphVersion, Header, LiveToken, Place, RunInfo};
use pleach_core::{BoxError, catch_panic};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What is done with runs that an earlier version of a graph began; for [`RunOptions::migrations`](crate::RunOptions::migrations).
///
/// A run is migrated when it is resumed, once: what it stands on is written anew, in one commit that also says which version it is of from now on.
/// Its history stays as it was written.
///
/// ```
/// # use pleach::durable::Migrations;
/// # use serde_json::json;
/// let migrations = Migrations::new()
///     // The state of schema 1 had one name; that of schema 2 has a list of them.
///     .state(1, |mut state| {
///         state["names"] = json!([state["name"].take()]);
///         Ok::<_, std::convert::Infallible>(state)
///     })
///     .rename_node("draft", "write");
/// ```
#[derive(Clone, Default)]
pub struct Migrations {
    /// By the subgraph whose state it is, and the schema that it is of.
    steps: BTreeMap<(String, u32), Step>,
    renames: Vec<(String, String)>,
    accepts_compatible: bool,
}

type Step = Arc<dyn Fn(Value) -> Result<Value, BoxError> + Send + Sync>;

impl Migrations {
    /// None yet: a run of another version is refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes of a state of the schema `from` one of the schema `from + 1`. Steps compose: a run of schema 1 becomes one of 3 by the steps
    /// from 1 and from 2.
    pub fn state<E: Into<BoxError>>(self, from: u32, step: impl Fn(Value) -> Result<Value, E> + Send + Sync + 'static) -> Self {
        self.state_inside("", from, step)
    }

    /// The same for the states inside a subgraph, which is called as the run calls it: `outer/inner`. Without one they stay as they are.
    pub fn state_inside<E: Into<BoxError>>(
        mut self,
        subgraph: impl Into<String>,
        from: u32,
        step: impl Fn(Value) -> Result<Value, E> + Send + Sync + 'static,
    ) -> Self {
        self.steps.insert((subgraph.into(), from), Arc::new(move |state| step(state).map_err(Into::into)));
        self
    }

    /// The node, or subgraph, that was called `old` is called `new` now. Inside a subgraph: `subgraph/node`.
    pub fn rename_node(mut self, old: impl Into<String>, new: impl Into<String>) -> Self {
        self.renames.push((old.into(), new.into()));
        self
    }

    /// Goes on with a run of another shape of the graph, if every node that it stands at is still there, and in the same place among fan-outs.
    ///
    /// What else changed, only you can know: that a node does the same as before, or that branches which have not begun are the same.
    pub fn accept_compatible(mut self) -> Self {
        self.accepts_compatible = true;
        self
    }

    /// The oldest schema from which steps lead to `schema` without a gap.
    pub(crate) fn oldest_to(&self, schema: u32) -> u32 {
        let has_step = |from: &u32| self.steps.contains_key(&(String::new(), *from));
        (0..schema).rev().take_while(has_step).last().unwrap_or(schema)
    }

    /// Whether a run can become one of this graph and version.
    pub(crate) fn check(&self, graph: &str, info: &RunInfo, given: &GraphVersion) -> Result<(), RunFault> {
        if info.graph != graph {
            let (run, stored, given) = (info.id.clone(), info.graph.clone(), graph.to_string());
            return Err(RunFault::Mismatch(MismatchError { run, what: "graph", stored, given }));
        }
        self.check_version(&info.id, &info.version, given)
    }

    /// Whether what this version wrote can become of the version `given`. Records of one run may be of several.
    pub(crate) fn check_version(&self, run: &str, stored: &GraphVersion, given: &GraphVersion) -> Result<(), RunFault> {
        let mismatch = |what, stored: &str, given: &str| {
            let (run, stored, given) = (run.to_string(), stored.to_string(), given.to_string());
            Err(RunFault::Mismatch(MismatchError { run, what, stored, given }))
        };
        let (from, to) = (stored.schema, given.schema);
        let missing = (from..to).find(|schema| !self.steps.contains_key(&(String::new(), *schema)));
        if from > to || missing == Some(from) {
            return mismatch("schema", &from.to_string(), &to.to_string());
        }
        if let Some(missing) = missing {
            return Err(RunFault::Resume(ResumeError::NoStep { run: run.to_string(), from, to, missing }));
        }
        let is_other = stored.fingerprint != given.fingerprint;
        if is_other && !self.accepts_compatible && self.renames.is_empty() {
            return mismatch("fingerprint", &stored.fingerprint, &given.fingerprint);
        }
        Ok(())
    }

    /// Migrates what a run stands on to this graph and schema. Each state is migrated from the schema of its own record.
    pub(crate) fn apply<S>(
        &self,
        plan: &Plan<S>,
        picture: &mut RunSnapshot,
        info: &RunInfo,
        to: &GraphVersion,
    ) -> Result<(), RunFault> {
        self.check_version(&info.id, picture.version(), to)?;
        // By their old names: a step is about the graph as it was.
        picture.for_each_state(|held| self.migrate_state(held, &info.id, to))?;
        if picture.version().fingerprint != to.fingerprint {
            picture.rename(&to.fingerprint, |name| self.new_name(name));
            let of_run = |token: &&LiveToken| undone_at(&token.path).is_none();
            picture.tokens().filter(of_run).try_for_each(|token| check_place(plan, picture, token, &info.id))?;
        }
        Ok(())
    }

    fn migrate_state(&self, held: SnapshotState<'_>, run: &str, to: &GraphVersion) -> Result<(), RunFault> {
        let Header { schema, fingerprint, .. } = &held.record.header;
        let version = GraphVersion { fingerprint: fingerprint.clone(), schema: *schema };
        self.check_version(run, &version, to)?;
        held.record.body = self.migrate_body(
            std::mem::take(&mut held.record.body),
            held.inside,
            (run, held.record.sequence),
            *schema..to.schema,
        )?;
        Ok(())
    }

    /// Migrates the states in the body of a record, inside of this subgraph, through these schemas.
    pub(crate) fn migrate_body(
        &self,
        mut body: Vec<u8>,
        inside: &str,
        (run, sequence): (&str, u64),
        schemas: Range<u32>,
    ) -> Result<Vec<u8>, RunFault> {
        let failed = |from, reason| {
            let run = run.to_string();
            RunFault::Resume(ResumeError::Migration { run, sequence, from, reason })
        };
        for schema in schemas {
            let Some(step) = self.steps.get(&(inside.to_string(), schema)) else { continue };
            let step = |value: Value| match catch_panic(|| step(value)) {
                Ok(migrated) => migrated.map_err(|reason| failed(schema, reason)),
                Err(panicked) => Err(failed(schema, panicked.to_string().into())),
            };
            if let Some(number) = oversized_integer(&body) {
                let why = format!(
                    "the integer {number} has more than 64 bits, which a `serde_json::Value` cannot hold; keep it as text"
                );
                return Err(failed(schema, why.into()));
            }
            let mut value: Value = serde_json::from_slice(&body).map_err(|error| failed(schema, error.into()))?;
            value["state"] = step(value["state"].take())?;
            if let Some(Value::Array(items)) = value.get_mut("items") {
                for item in items {
                    *item = step(item.take())?;
                }
            }
            body = serde_json::to_vec(&value).map_err(|error| failed(schema, error.into()))?;
        }
        Ok(body)
    }

    /// What a node is called now, if that is not as before. What is said about a node inside a subgraph counts more than what is said about the
    /// subgraph.
    fn new_name(&self, name: &str) -> Option<String> {
        let rest = |old: &str| name.strip_prefix(old).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let known = self.renames.iter().filter_map(|(old, new)| Some((old.len(), new, rest(old)?)));
        known.max_by_key(|(length, ..)| *length).map(|(_, new, rest)| format!("{new}{rest}"))
    }
}

impl fmt::Debug for Migrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Migrations")
            .field("steps", &self.steps.keys().collect::<Vec<_>>())
            .field("renames", &self.renames)
            .field("accepts_compatible", &self.accepts_compatible)
            .finish()
    }
}

/// An integer in JSON that has more than 64 bits, if there is one: a `Value` would make a float of it.
fn oversized_integer(json: &[u8]) -> Option<String> {
    let (mut at, mut in_text) = (0, false);
    while at < json.len() {
        match json[at] {
            b'"' => in_text = !in_text,
            b'\\' if in_text => at += 1,
            b'-' | b'0'..=b'9' if !in_text => {
                let is_part = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let end = json[at..].iter().position(|byte| !is_part(byte)).map_or(json.len(), |length| at + length);
                let number = String::from_utf8_lossy(&json[at..end]);
                let is_integer = !number.contains(['.', 'e', 'E']);
                if is_integer && number.parse::<u64>().is_err() && number.parse::<i64>().is_err() {
                    return Some(number.into_owned());
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether a token can stand in this graph where it stood in another.
fn check_place<S>(plan: &Plan<S>, picture: &RunSnapshot, token: &LiveToken, run: &str) -> Result<(), RunFault> {
    let fork = fork_above(picture, token);
    let branch = token.path.last().map_or(0, |last| last.branch as usize);
    let missing = match fork.filter(|fork| !plan.has_branch(fork, branch)) {
        Some(fork) => Some(fork),
        None => name_of(&token.at).filter(|name| !plan.has_place(name, &token.at, fork)),
    };
    let Some(missing) = missing else { return Ok(()) };
    let (run, stored, given) = (run.to_string(), missing.to_string(), plan.name.clone());
    Err(RunFault::Mismatch(MismatchError { run, what: "node", stored, given }))
}

fn name_of(at: &Place) -> Option<&str> {
    match at {
        Place::Node(name) | Place::Router(name) | Place::Fork(name) | Place::Join(name) | Place::Failed(name) => Some(name),
        Place::End => None,
    }
}

/// The node whose fan-out a token is in, if that is what it is in.
fn fork_above<'a>(picture: &'a RunSnapshot, token: &LiveToken) -> Option<&'a str> {
    let (_, above) = token.path.split_last()?;
    match &picture.token_at(above)?.at {
        Place::Fork(node) => Some(node.as_str()),
        _ => None,
    }
}

/// Of nodes inside subgraphs it is enough that they are there.
impl<S> Plan<S> {
    fn position(&self, node: &str) -> Option<usize> {
        self.names.iter().position(|name| **name == *node)
    }

    fn fork(&self, node: &str) -> Option<&PlanFanOut<S>> {
        match &self.nodes[self.position(node)?].out_edge {
            OutEdge::Fork(fork) => Some(fork),
            _ => None,
        }
    }

    /// Whether a fan-out has so many branches.
    fn has_branch(&self, node: &str, branch: usize) -> bool {
        match self.fork(node).map(|fork| &fork.heads) {
            Some(BranchHeads::Each(heads, _)) => branch < heads.len(),
            Some(BranchHeads::Map(..)) => true,
            None => self.position(node).is_none(),
        }
    }

    /// Whether a token in the fan-out of `fork` can stand there.
    fn has_place(&self, node: &str, at: &Place, fork: Option<&str>) -> bool {
        if let Place::Join(_) = at {
            let join = fork.and_then(|fork| self.fork(fork)).map(|fork| fork.join);
            return join.is_none_or(|join| match join {
                Target::Node(join) => *self.names[join as usize] == *node,
                Target::End => node == END,
            });
        }
        let Some(position) = self.position(node) else { return self.nodes_by_id.find(node).is_some() };
        let around = self.fan_outs[position].map(|fork| &*self.names[fork as usize]);
        around == fork && (!matches!(at, Place::Fork(_)) || self.fork(node).is_some())
    }
}
