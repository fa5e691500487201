//! The open waits for messages of a stored run, from its live records.

use crate::log::message::{answer_name, signal_name};
use crate::log::visit::VisitRecordBody;
use crate::log::{RunLog, open};
use crate::store::{Kind, Record, Store, StoreError};
use std::collections::{BTreeMap, HashSet};

/// The record of each open wait, with the name of the message that ends it.
pub(crate) type MessageWaits = BTreeMap<u64, String>;

impl RunLog {
    /// Returns the open waits of a resumed run, before any of its records is taken.
    pub(crate) fn restored_message_waits(&self) -> MessageWaits {
        message_waits(self.lock().restored.values())
    }
}

/// Reads the open waits of a run without a driver.
pub(crate) async fn read(store: &dyn Store, run: &str, head: u64) -> Result<MessageWaits, StoreError> {
    let position = open::position(store, run, head).await?;
    let records = open::records(store, run, position.frontier.rows().collect()).await?;
    Ok(message_waits(records.values()))
}

/// Returns the open waits among the live records of a run.
fn message_waits<'a>(records: impl IntoIterator<Item = &'a Record>) -> MessageWaits {
    let (mut begun, mut ended) = (BTreeMap::new(), HashSet::new());
    for record in records.into_iter().filter(|record| matches!(record.header.kind, Kind::Wait | Kind::Wake)) {
        let Ok(VisitRecordBody { key, signal, due: None, .. }) = serde_json::from_slice(&record.body) else { continue };
        let wait = (record.header.path.as_slice(), key, signal);
        if record.header.kind == Kind::Wake {
            ended.insert(wait);
        } else if !wait.1.is_empty() {
            begun.insert(record.sequence, wait);
        }
    }
    begun.retain(|_, wait| !ended.contains(wait));
    let name =
        |(_, key, signal): (_, String, Option<u32>)| if signal.is_some() { signal_name(&key) } else { answer_name(&key) };
    begun.into_iter().map(|(record, wait)| (record, name(wait))).collect()
}
