//! [`Resume`]: the options of a stored run before it continues.

use crate::compile::compiled::CompiledGraph;
use crate::durable::changes::{ResumeChanges, ResumePoint};
use crate::durable::options::{DurableOptions, RunSource};
use crate::log::message::answer_name;
use crate::run::options::RunOptions;
use crate::store::Store;
use pleach_core::BoxError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;

/// A stored run that is about to continue. Returned by [`CompiledGraph::resume`].
///
/// A resume needs a store: [`checkpoint`](Self::checkpoint) names it and returns the run as
/// [`RunOptions`], which can be awaited. A `Resume` alone is not a future. To pass the run to
/// `tokio::spawn`, call `.into_future()` after `checkpoint`.
///
/// By default the run continues after its last committed step. The methods below select another
/// record, another state or a new run. If a resume is rejected, the stored run stays unchanged.
/// [`CompiledGraph::history`] lists the records to go back to.
///
/// ```
/// # use pleach::store::MemoryStore;
/// # use pleach::{END, Graph};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = Graph::<u32>::new("adding")
/// #     .add_node("one", |n: u32| async move { n + 1 })
/// #     .add_node("ten", |n: u32| async move { n + 10 })
/// #     .add_edge("one", "ten").add_edge("ten", END).set_entry("one").compile()?;
/// let store = MemoryStore::new();
/// assert_eq!(graph.run(0).id("sum").checkpoint(&store).await?, 11);
///
/// // Rewinds to the record after "one", with another state.
/// let rewound = graph.resume("sum").rewind_to(2).with_state(|n| n + 100);
/// assert_eq!(rewound.checkpoint(&store).await?, 111);
/// // Forks a new run from the same record. The first run stays as it is.
/// assert_eq!(graph.resume("sum").rewind_to(2).fork_as("sum-2").checkpoint(&store).await?, 11);
/// # Ok(())
/// # }
/// ```
#[must_use = "a resume does nothing until `checkpoint` names the store and the run is awaited"]
pub struct Resume<S> {
    graph: CompiledGraph<S>,
    run: Arc<str>,
    takes_over: bool,
    answers: Vec<(String, Result<Vec<u8>, serde_json::Error>)>,
    fork: Option<Arc<str>>,
    changes: ResumeChanges<S>,
}

impl<S: Send + 'static> Resume<S> {
    pub(crate) fn new(graph: CompiledGraph<S>, run: Arc<str>) -> Self {
        Self { graph, run, takes_over: false, fork: None, answers: Vec::new(), changes: ResumeChanges::default() }
    }

    /// Takes the run from its current driver, and resets a stuck run so that it can continue.
    ///
    /// The former driver is fenced: its next commit fails, and its run ends with
    /// [`Fenced`](crate::RunFault::Fenced).
    pub fn take_over(mut self) -> Self {
        self.takes_over = true;
        self
    }

    /// Answers the interrupt with this key.
    ///
    /// # Errors
    /// If the node cannot decode the answer, or no interrupt with this key waits, the resume ends
    /// with [`AnswerRejected`](crate::RunFault::AnswerRejected). The answer is not stored and the
    /// run keeps waiting.
    pub fn resume_with(mut self, key: impl AsRef<str>, answer: &(impl Serialize + ?Sized)) -> Self {
        self.answers.push((answer_name(key.as_ref()), serde_json::to_vec(answer)));
        self
    }

    /// Continues from the state of the run after the record with this sequence number, even if the
    /// run has ended.
    ///
    /// - Nothing is deleted: the states of that record are written again at the end of the log.
    /// - Every node after that record gets a new idempotency key, and so do its effects. Effects
    ///   that were recorded before it stay recorded.
    /// - Undos of later steps will not run.
    ///
    /// # Errors
    /// - [`Pruned`](crate::store::StoreError::Pruned): the record was removed.
    /// - [`NoSuchRow`](crate::store::StoreError::NoSuchRow): the log never had this record.
    pub fn rewind_to(mut self, sequence: u64) -> Self {
        self.changes.point = ResumePoint::After(sequence);
        self
    }

    /// Runs the last completed node again, with the state that it got then.
    ///
    /// The node has a new idempotency key, so its effects are executed again. The work of other
    /// branches stays.
    pub fn replay_last(mut self) -> Self {
        self.changes.point = ResumePoint::LastStep;
        self
    }

    /// Replaces the state with the result of `change` and commits it before the run continues.
    ///
    /// The next node gets a new idempotency key.
    ///
    /// # Errors
    /// The run must have a single token: while a fan-out or a subgraph is open, the resume ends
    /// with [`Branched`](crate::ResumeError::Branched).
    pub fn with_state(mut self, change: impl FnOnce(S) -> S + Send + 'static) -> Self {
        self.changes.replace = Some(Box::new(change));
        self
    }

    /// Continues only if `check` accepts every current state of the run.
    ///
    /// `check` runs after migrations and changes. In a fan-out it sees the state before the fan-out
    /// and the state of each branch that has started. States inside subgraphs are not checked.
    ///
    /// # Errors
    /// If `check` fails, the resume ends with [`Invalid`](crate::ResumeError::Invalid).
    pub fn validate<E: Into<BoxError>>(mut self, check: impl Fn(&S) -> Result<(), E> + Send + 'static) -> Self {
        self.changes.validate = Some(Box::new(move |state| check(state).map_err(Into::into)));
        self
    }

    /// Continues as a new run with this id. The first run stays unchanged and is not claimed.
    ///
    /// The new run gets a copy of the current records and its own idempotency keys, so the first
    /// run may be deleted. If the new run fails, it undoes only its own steps. To fork a run that
    /// has ended, select an earlier record with [`rewind_to`](Self::rewind_to).
    pub fn fork_as(mut self, id: impl Into<Arc<str>>) -> Self {
        self.fork = Some(id.into());
        self
    }
}

impl<S: Serialize + DeserializeOwned + Send + 'static> Resume<S> {
    /// Names the store of the run and returns the run, ready to be awaited.
    ///
    /// Further steps are committed to the same store.
    pub fn checkpoint(self, store: &(impl Store + Clone)) -> RunOptions<'static, S> {
        let Self { graph, run, takes_over, answers, fork, changes } = self;
        let (id, origin) = match fork {
            None => (run, RunSource::Stored { takes_over }),
            Some(new) => (new, RunSource::Forked { from: run }),
        };
        let mut stored = DurableOptions::new(Arc::new(store.clone()), origin);
        (stored.answers, stored.changes) = (answers, changes);
        RunOptions::new(graph, None).id(id).stored(stored)
    }
}

impl<S> fmt::Debug for Resume<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resume({:?}, {:?})", self.run, self.graph)
    }
}
