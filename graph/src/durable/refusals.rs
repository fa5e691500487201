//! The health reports of a stored run about messages that an earlier driver refused.
//!
//! A driver that opens a run reports each refused message whose wait is still open. It reads them
//! from the store, unless its own process drove the run last and kept the reports. If another
//! driver had the run in between, it adds what the store has and the kept reports have not.

use crate::control::RunRefusals;
use crate::log::message_waits::{self, MessageWaits};
use crate::log::open::OpenedRun;
use crate::store::{InboxMessage, RunInfo, Store, StoreError};

/// Restores the reports of an opened run, before any of its nodes runs.
pub(super) async fn restore(store: &dyn Store, opened: &OpenedRun, refusals: &RunRefusals) {
    let open = opened.log.restored_message_waits();
    if refusals.is_kept() && refusals.reopen(&open) {
        return;
    }
    let OpenedRun { info, messages, .. } = opened;
    if info.last_message == 0 || open.values().all(|name| has_message(messages, name)) {
        return;
    }
    match store.refused(&info.id).await {
        Ok(refused) => refusals.restore(&refused, &open),
        Err(error) => {
            tracing::warn!(run = info.id, %error, "the refused messages of the run could not be read, so the health does not show them until the run is driven again");
        }
    }
}

/// Returns whether the inbox has a message for this wait. Then its node decides anew.
fn has_message(messages: &[InboxMessage], name: &str) -> bool {
    messages.iter().any(|message| message.message.name == name)
}

/// Reports the refused messages of a run without a driver. Returns whether there are any.
pub(crate) async fn adopt(store: &dyn Store, info: &RunInfo, refusals: &RunRefusals) -> Result<bool, StoreError> {
    let refused = store.refused(&info.id).await?;
    if refused.iter().all(|refused| refused.wait.is_none()) {
        return Ok(false);
    }
    let open: MessageWaits = message_waits::read(store, &info.id, info.head).await?;
    refusals.restore(&refused, &open);
    refusals.keep();
    Ok(!refusals.is_empty())
}
