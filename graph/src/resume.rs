//! `Resume`: a run that is in a store, before it is gone on with. It becomes a run once it is told in which store it is.

use crate::CompiledGraph;
use crate::letters::answer_to;
use crate::run::RunOptions;
use crate::store::Store;
use crate::stored_run::{Origin, StoredOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;

/// A run to be gone on with; from [`CompiledGraph::resume`]. Its [`checkpoint`](Self::checkpoint) says in which store it is, and gives the run.
#[must_use = "a run goes on once it is told where it is stored, and awaited"]
pub struct Resume<S> {
    graph: CompiledGraph<S>,
    run: Arc<str>,
    takes_over: bool,
    answers: Vec<(String, Result<Vec<u8>, serde_json::Error>)>,
}

impl<S: Send + 'static> Resume<S> {
    pub(crate) fn new(graph: CompiledGraph<S>, run: Arc<str>) -> Self {
        Self { graph, run, takes_over: false, answers: Vec::new() }
    }

    /// Takes the run from whoever holds it, and lets one that is stuck go on. Its driver is fenced: it cannot commit any more.
    pub fn take_over(mut self) -> Self {
        self.takes_over = true;
        self
    }

    /// Answers the interrupt of this key. An answer that the node cannot read, or that nothing waits for, ends this resume with
    /// [`AnswerRefused`](crate::RunFault::AnswerRefused): nothing is consumed, and the run waits on.
    pub fn resume_with(mut self, key: impl AsRef<str>, answer: &(impl Serialize + ?Sized)) -> Self {
        self.answers.push((answer_to(key.as_ref()), serde_json::to_vec(answer)));
        self
    }
}

impl<S: Serialize + DeserializeOwned + Send + 'static> Resume<S> {
    /// Goes on with it as it is in this store, and writes down its further steps there.
    pub fn checkpoint(self, store: &(impl Store + Clone)) -> RunOptions<'static, S> {
        let origin = Origin::Stored { takes_over: self.takes_over };
        let mut stored = StoredOptions::new(Arc::new(store.clone()), origin);
        stored.answers = self.answers;
        RunOptions::new(self.graph, None).id(self.run).stored(stored)
    }
}

impl<S> fmt::Debug for Resume<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resume({:?}, {:?})", self.run, self.graph)
    }
}
