//! [`Migrations`]: how runs of earlier graph versions continue, with new states and node names.

use crate::compile::places::{fork_above, missing_place};
use crate::compile::plan::Plan;
use crate::error::{MismatchError, ResumeError, RunFault};
use crate::log::frontier::undone_at;
use crate::log::snapshot::{RunSnapshot, SnapshotState};
use crate::store::{GraphVersion, Header, LiveToken, RunInfo};
use pleach_core::{BoxError, catch_panic};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How runs of earlier graph versions are converted. Used with
/// [`RunOptions::migrations`](crate::RunOptions::migrations).
///
/// A run is migrated once, when it is resumed. One commit writes its current states again and
/// stores the new version. Older records stay as they were written.
///
/// ```
/// # use pleach::durable::Migrations;
/// # use serde_json::json;
/// let migrations = Migrations::new()
///     // Schema 1 had one name, schema 2 has a list of names.
///     .state(1, |mut state| {
///         state["names"] = json!([state["name"].take()]);
///         Ok::<_, std::convert::Infallible>(state)
///     })
///     .rename_node("draft", "write");
/// ```
#[derive(Clone, Default)]
pub struct Migrations {
    /// By subgraph and by the schema that the step reads.
    steps: BTreeMap<(String, u32), Step>,
    renames: Vec<(String, String)>,
    accepts_compatible: bool,
}

type Step = Arc<dyn Fn(Value) -> Result<Value, BoxError> + Send + Sync>;

impl Migrations {
    /// Creates an empty set: a run of another version is rejected with a mismatch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step that converts a state of schema `from` to schema `from + 1`.
    ///
    /// Steps compose: the steps from 1 and from 2 together migrate a run of schema 1 to schema 3. A
    /// step that fails or panics ends the resume with [`ResumeError::Migration`].
    pub fn state<E: Into<BoxError>>(self, from: u32, step: impl Fn(Value) -> Result<Value, E> + Send + Sync + 'static) -> Self {
        self.state_inside("", from, step)
    }

    /// Adds a step for the states inside a subgraph, named by its full id: `outer/inner`.
    ///
    /// States of subgraphs without a step stay unchanged.
    pub fn state_inside<E: Into<BoxError>>(
        mut self,
        subgraph: impl Into<String>,
        from: u32,
        step: impl Fn(Value) -> Result<Value, E> + Send + Sync + 'static,
    ) -> Self {
        self.steps.insert((subgraph.into(), from), Arc::new(move |state| step(state).map_err(Into::into)));
        self
    }

    /// Maps the old id of a node or subgraph to its new id. Inside a subgraph the id is
    /// `subgraph/node`.
    pub fn rename_node(mut self, old: impl Into<String>, new: impl Into<String>) -> Self {
        self.renames.push((old.into(), new.into()));
        self
    }

    /// Accepts a run of another graph shape if all its current nodes still exist, in the same
    /// fan-outs.
    ///
    /// Default: another fingerprint is a mismatch. The caller must make sure that nodes still do
    /// the same work, and that branches which have not started still fit.
    pub fn accept_compatible(mut self) -> Self {
        self.accepts_compatible = true;
        self
    }

    /// Returns the oldest schema from which an unbroken chain of steps leads to `schema`.
    pub(crate) fn oldest_to(&self, schema: u32) -> u32 {
        let has_step = |from: &u32| self.steps.contains_key(&(String::new(), *from));
        (0..schema).rev().take_while(has_step).last().unwrap_or(schema)
    }

    /// Checks that the run belongs to `graph` and can be migrated to the version `given`.
    pub(crate) fn check(&self, graph: &str, info: &RunInfo, given: &GraphVersion) -> Result<(), RunFault> {
        if info.graph != graph {
            let (run, stored, given) = (info.id.clone(), info.graph.clone(), graph.to_string());
            return Err(RunFault::Mismatch(MismatchError { run, what: "graph", stored, given }));
        }
        self.check_version(&info.id, &info.version, given)
    }

    /// Checks that a record of version `stored` can be migrated. Records of one run may have
    /// different versions.
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
        if is_other && !self.accepts_other_shapes() {
            return mismatch("fingerprint", &stored.fingerprint, &given.fingerprint);
        }
        Ok(())
    }

    /// Migrates the current states and positions of a run. Each state is migrated from the schema
    /// of its record.
    pub(crate) fn apply<S>(
        &self,
        plan: &Plan<S>,
        snapshot: &mut RunSnapshot,
        info: &RunInfo,
        to: &GraphVersion,
    ) -> Result<(), RunFault> {
        self.check_version(&info.id, snapshot.version(), to)?;
        // States first, by their old node names: a step describes the old graph.
        snapshot.for_each_state(|held| self.migrate_state(held, &info.id, to))?;
        if snapshot.version().fingerprint != to.fingerprint {
            snapshot.rename(&to.fingerprint, |name| self.new_name(name));
            let of_run = |token: &&LiveToken| undone_at(&token.path).is_none();
            for token in snapshot.tokens().filter(of_run) {
                let above = fork_above(|path| snapshot.token_at(path), token);
                if let Some(missing) = missing_place(plan, token, above) {
                    let (run, stored, given) = (info.id.clone(), missing.to_string(), plan.name.clone());
                    return Err(RunFault::Mismatch(MismatchError { run, what: "node", stored, given }));
                }
            }
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

    /// Migrates all states in the body of a record through the given schemas.
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
                let reason = format!(
                    "the integer {number} has more than 64 bits, which a `serde_json::Value` cannot hold; store it as text"
                );
                return Err(failed(schema, reason.into()));
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

    /// Returns the new id of a node, if it changed. The longest matching rename wins, so one for a
    /// node takes precedence over one for its subgraph.
    fn new_name(&self, name: &str) -> Option<String> {
        new_name(&self.renames, name)
    }

    /// Returns how nodes are renamed, from old to new ids.
    pub(crate) fn renames(&self) -> &[(String, String)] {
        &self.renames
    }

    /// Returns whether a run of another graph shape is accepted.
    pub(crate) fn accepts_other_shapes(&self) -> bool {
        self.accepts_compatible || !self.renames.is_empty()
    }
}

/// Returns the new id of a node, if one of the renames changes it.
pub(crate) fn new_name(renames: &[(String, String)], name: &str) -> Option<String> {
    let rest = |old: &str| name.strip_prefix(old).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let known = renames.iter().filter_map(|(old, new)| Some((old.len(), new, rest(old)?)));
    known.max_by_key(|(length, ..)| *length).map(|(_, new, rest)| format!("{new}{rest}"))
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

/// Finds an integer of more than 64 bits in JSON text. A `Value` would turn it into a float.
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
