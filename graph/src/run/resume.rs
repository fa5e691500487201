//! `Resume`: a stored run before it continues. `checkpoint` names its store and returns the run.

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

/// A run to be gone on with; from [`CompiledGraph::resume`]. Its [`checkpoint`](Self::checkpoint) says in which store it is, and gives the run.
///
/// It goes on after its last step, unless it is told to go on from elsewhere, with another state, or as another run. What is refused leaves the
/// run as it was. [`CompiledGraph::history`] shows what there is to go back to.
///
/// ```
/// # use pleach::store::MemoryStore;
/// # use pleach::{END, Graph};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = Graph::<u32>::new("adding")
/// #     .add_node("one", |n: u32| async move { Ok::<_, String>(n + 1) })
/// #     .add_node("ten", |n: u32| async move { Ok::<_, String>(n + 10) })
/// #     .add_edge("one", "ten").add_edge("ten", END).set_entry("one").compile()?;
/// let store = MemoryStore::new();
/// assert_eq!(graph.run(0).id("sum").checkpoint(&store).await?, 11);
///
/// // Back to where "one" was done, with another state; and the same as a run of its own, while the first stays as it is.
/// assert_eq!(graph.resume("sum").rewind_to(2).with_state(|n| n + 100).checkpoint(&store).await?, 111);
/// assert_eq!(graph.resume("sum").rewind_to(2).fork_as("sum-2").checkpoint(&store).await?, 11);
/// # Ok(())
/// # }
/// ```
#[must_use = "a run goes on once it is told where it is stored, and awaited"]
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

    /// Takes the run from whoever holds it, and lets one that is stuck go on. Its driver is fenced: it cannot commit any more.
    pub fn take_over(mut self) -> Self {
        self.takes_over = true;
        self
    }

    /// Answers the interrupt of this key. An answer that the node cannot read, or that nothing waits for, ends this resume with
    /// [`AnswerRefused`](crate::RunFault::AnswerRefused): nothing is consumed, and the run waits on.
    pub fn resume_with(mut self, key: impl AsRef<str>, answer: &(impl Serialize + ?Sized)) -> Self {
        self.answers.push((answer_name(key.as_ref()), serde_json::to_vec(answer)));
        self
    }

    /// Goes on as the run stood after the record of this sequence, whatever became of it since: also if it has ended.
    ///
    /// Nothing is deleted: the states of that moment are written anew, at the end of the log. Every node from there on has a new idempotency key,
    /// and so have its effects; effects that were recorded before stay recorded. What can be undone is what could be then: undos of later steps
    /// will not run. A record that was removed is [`Pruned`](crate::store::StoreError::Pruned), one that never was
    /// [`NoSuchRow`](crate::store::StoreError::NoSuchRow).
    pub fn rewind_to(mut self, sequence: u64) -> Self {
        self.changes.point = ResumePoint::After(sequence);
        self
    }

    /// Runs the last node that was done once more, under a new idempotency key, with the state that it had been given; its effects are done anew.
    /// What other branches did meanwhile stays.
    pub fn replay_last(mut self) -> Self {
        self.changes.point = ResumePoint::LastStep;
        self
    }

    /// Goes on with what `change` makes of the state, which is written down first. The node that is next has a new idempotency key.
    ///
    /// Only for a run with one line of control: while a fan-out or a subgraph is open it is [`Branched`](ResumeError::Branched).
    pub fn with_state(mut self, change: impl FnOnce(S) -> S + Send + 'static) -> Self {
        self.changes.replace = Some(Box::new(change));
        self
    }

    /// Goes on only if the state is good. It is asked about each state that the run stands on, after migrations and changes: in a fan-out, about
    /// that before it and those of all branches that have begun. What subgraphs have inside is not asked about.
    pub fn validate<E: Into<BoxError>>(mut self, check: impl Fn(&S) -> Result<(), E> + Send + 'static) -> Self {
        self.changes.validate = Some(Box::new(move |state| check(state).map_err(Into::into)));
        self
    }

    /// Goes on as a new run of this id; the run itself stays as it is, held or not, and may be deleted.
    ///
    /// The new run has a copy of all that it stands on, and its own keys. If it fails, it undoes what it did itself, and nothing that the first
    /// one did. A run that has ended is forked from an earlier record: [`rewind_to`](Self::rewind_to) says which.
    pub fn fork_as(mut self, id: impl Into<Arc<str>>) -> Self {
        self.fork = Some(id.into());
        self
    }
}

impl<S: Serialize + DeserializeOwned + Send + 'static> Resume<S> {
    /// Goes on with it as it is in this store, and writes down its further steps there.
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
