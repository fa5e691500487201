//! [`GraphExport`]: a graph as data.

use crate::compile::compiled::CompiledGraph;
use crate::compile::inspect::Inspection;
use crate::durable::migrate::Migrations;
use crate::store::GraphVersion;
use serde::{Deserialize, Serialize};

/// The format of [`GraphExport`] that this version writes.
pub const EXPORT_FORMAT: u32 = 1;

/// A graph as data: its nodes, its edges, and the versions of stored runs that it accepts.
///
/// Returned by [`CompiledGraph::export`] and [`Worker::exports`](crate::Worker::exports). Written
/// to a file as JSON, it lets a [deploy check](crate::DeployCheck) run without the program.
///
/// ```
/// use pleach::durable::{GraphExport, Migrations};
/// use pleach::{END, Graph};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("double")
///     .add_node("double", |n: u32| async move { n * 2 })
///     .add_edge("double", END)
///     .set_entry("double")
///     .compile()?;
/// let export = graph.export().schema(2).migrations(&Migrations::new().state(1, Ok::<_, String>));
///
/// let text = serde_json::to_string_pretty(&export)?;
/// let read: GraphExport = serde_json::from_str(&text)?;
/// assert_eq!((read.graph.name.as_str(), read.schema, read.oldest_schema), ("double", 2, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphExport {
    /// The format of this description: [`EXPORT_FORMAT`].
    pub format: u32,
    /// The nodes, edges and fingerprint of the graph.
    pub graph: Inspection,
    /// The version of the state type.
    pub schema: u32,
    /// The oldest schema from which migrations lead to [`schema`](Self::schema).
    pub oldest_schema: u32,
    /// The fingerprints of earlier versions whose runs are claimed too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fingerprints: Vec<String>,
    /// Whether the migrations accept runs of another graph shape.
    #[serde(default)]
    pub accepts_other_shapes: bool,
    /// The nodes that the migrations rename, from old to new ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renames: Vec<(String, String)>,
}

impl<S> CompiledGraph<S> {
    /// Returns the graph as data, for a [deploy check](crate::DeployCheck) or a file.
    ///
    /// The export has schema 0 and no migrations; set them as the program does.
    pub fn export(&self) -> GraphExport {
        GraphExport {
            format: EXPORT_FORMAT,
            graph: self.inspect(),
            schema: 0,
            oldest_schema: 0,
            fingerprints: Vec::new(),
            accepts_other_shapes: false,
            renames: Vec::new(),
        }
    }
}

impl GraphExport {
    /// Sets the version of the state type, and removes earlier accepted schemas.
    #[must_use]
    pub fn schema(mut self, schema: u32) -> Self {
        (self.schema, self.oldest_schema) = (schema, schema);
        self
    }

    /// Sets the migrations. Call it after [`schema`](Self::schema).
    #[must_use]
    pub fn migrations(mut self, migrations: &Migrations) -> Self {
        self.oldest_schema = migrations.oldest_to(self.schema);
        self.accepts_other_shapes = migrations.accepts_other_shapes();
        self.renames = migrations.renames().to_vec();
        self
    }

    /// Adds fingerprints of earlier versions, as
    /// [`Worker::accept_fingerprints`](crate::Worker::accept_fingerprints) does.
    #[must_use]
    pub fn accept_fingerprints(mut self, fingerprints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.fingerprints.extend(fingerprints.into_iter().map(Into::into));
        self
    }

    /// Returns whether a worker with this graph claims runs of this fingerprint.
    pub(crate) fn accepts_fingerprint(&self, fingerprint: &str) -> bool {
        self.graph.fingerprint == fingerprint || self.fingerprints.iter().any(|known| known == fingerprint)
    }

    /// Returns whether a worker with this graph claims runs of this graph version.
    pub(crate) fn claims(&self, graph: &str, version: &GraphVersion) -> bool {
        self.graph.name == graph
            && self.accepts_fingerprint(&version.fingerprint)
            && (self.oldest_schema..=self.schema).contains(&version.schema)
    }
}
