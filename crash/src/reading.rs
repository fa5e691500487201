//! What a store holds of a run, read from outside: its row, and what each record proves to be
//! durable.

use crate::graph::State;
use crate::ledger_client::sum_of;
use crate::report::fact;
use pleach::store::{Kind, Parts, Record, Rows, RunInfo, Store, StoreError};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a store may be unavailable. A killed server comes back.
const OUTAGE_MAX: Duration = Duration::from_secs(20);

/// A run at one moment.
pub struct Reading {
    pub info: RunInfo,
    pub records: Vec<Durable>,
    /// The state in the last record, if any.
    pub state: Option<State>,
}

/// A record and what it proves.
pub struct Durable {
    pub sequence: u64,
    pub sum: u64,
    pub epoch: u64,
    pub kind: Kind,
    pub node: String,
    pub visits: u64,
    pub can_be_undone: bool,
    pub facts: Vec<String>,
}

/// Reads a run. Returns `None` if it does not exist, and an error if the log has a hole or a
/// damaged record.
pub async fn read(store: &Arc<dyn Store>, run: &str) -> Result<Option<Reading>, StoreError> {
    let begun = Instant::now();
    loop {
        match read_once(store, run).await {
            Ok(reading) => return Ok(Some(reading)),
            Err(StoreError::RunNotFound { .. }) => return Ok(None),
            // It was pruned between two reads, or the server is not back yet.
            Err(error) if is_passing(&error) && begun.elapsed() < OUTAGE_MAX => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_passing(error: &StoreError) -> bool {
    error.is_temporary() || matches!(error, StoreError::Pruned { .. })
}

async fn read_once(store: &Arc<dyn Store>, run: &str) -> Result<Reading, StoreError> {
    let info = store.head(run).await?;
    let (mut records, mut next, mut state) = (Vec::new(), info.oldest, None);
    while next <= info.head {
        for row in store.read(run, Rows::Range(next..=info.head), Parts::Whole).await? {
            next = row.sequence + 1;
            let sum = sum_of(&row);
            let record = row.open(run)?;
            if record.sequence == info.head {
                let body: Value = serde_json::from_slice(&record.body).unwrap_or_default();
                state = serde_json::from_value(body["state"].clone()).ok();
            }
            records.push(Durable::new(record, sum));
        }
    }
    Ok(Reading { info, records, state })
}

impl Durable {
    fn new(record: Record, sum: u64) -> Self {
        let Record { sequence, header, body, .. } = record;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let facts = match header.kind {
            Kind::Effect => vec![fact::effect(&text(&body["value"]["receipt"]))],
            Kind::Started => vec![fact::started(&header.node, &text(&body["key"]))],
            Kind::Attempt => vec![fact::attempt(&header.node, header.attempt)],
            Kind::Undo => vec![fact::undo(&header.node)],
            _ => body["state"]["keys"].as_array().into_iter().flatten().map(|key| fact::node(&text(key))).collect(),
        };
        Self {
            sequence,
            sum,
            epoch: header.epoch,
            kind: header.kind,
            node: header.node,
            visits: header.visits,
            can_be_undone: body.get("undo").is_some(),
            facts,
        }
    }
}
