//! The states of a run as JSON, without the type of its graph.

use crate::control::RunRemote;
use crate::durable::patch::JsonPatch;
use crate::error::{CheckpointError, RunFault, fault_of};
use crate::log::open;
use crate::store::{Place, Record, Store, StoreError};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The part of a record body that holds the state.
#[derive(Deserialize)]
struct WithState<'a> {
    #[serde(borrow)]
    state: &'a RawValue,
}

/// States. They read the log of the run and need neither its graph nor a claim.
impl RunRemote {
    /// Returns the state of a record's token, as the JSON text that is stored.
    ///
    /// For a step this is the state that the node returned; for a record written inside a node, the
    /// state that the node got. Numbers have all their digits. A record inside a subgraph has the
    /// state of the subgraph.
    ///
    /// # Errors
    /// [`Checkpoint`](RunFault::Checkpoint): the record is unknown or was pruned, or the store
    /// failed.
    pub async fn state_at(&self, record: u64) -> Result<String, RunFault> {
        let failed = |error| fault_of(self.id(), "", "open", error);
        let found = state_record(&**self.store(), self.id(), record).await.map_err(failed)?;
        match serde_json::from_slice::<WithState<'_>>(&found.body) {
            Ok(body) => Ok(body.state.get().to_string()),
            Err(error) => Err(RunFault::Checkpoint(CheckpointError::new(self.id(), found.header.node, "decode", error))),
        }
    }

    /// Returns the difference of the states of two records, as a JSON patch.
    ///
    /// See [`JsonPatch`] for its cost.
    ///
    /// # Errors
    /// As [`state_at`](Self::state_at).
    pub async fn state_patch(&self, from: u64, to: u64) -> Result<JsonPatch, RunFault> {
        let (before, after) = (self.state_at(from).await?, self.state_at(to).await?);
        let failed = |error| RunFault::Checkpoint(CheckpointError::new(self.id(), "", "decode", error));
        JsonPatch::between(&before, &after).map_err(failed)
    }
}

/// Returns the record that contains the state of this record's token.
pub(super) async fn state_record(store: &dyn Store, run: &str, sequence: u64) -> Result<Record, StoreError> {
    let mut found = open::records(store, run, vec![sequence]).await?;
    let missing = || StoreError::Damaged { run: run.to_string(), sequence, reason: "it is not there" };
    let record = found.remove(&sequence).ok_or_else(missing)?;
    let holds_state = record.header.next.as_ref().is_some_and(|next| !matches!(next, Place::Failed(_)));
    if holds_state {
        return Ok(record);
    }
    // A token without its own state has the state of the fan-out above it.
    let position = open::position(store, run, sequence).await?;
    let mut path = record.header.path.as_slice();
    loop {
        let row =
            position.frontier.get(path).filter(|token| !matches!(token.at, Place::Failed(_))).map_or(0, |token| token.row);
        if row > 0 {
            return open::records(store, run, vec![row]).await?.remove(&row).ok_or_else(missing);
        }
        path = path.split_last().ok_or_else(missing)?.1;
    }
}
