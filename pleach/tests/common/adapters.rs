//! For tests of adapters: a recipient of text for a `TestActor`.

use crate::common::{INJECTED, Job};
use pleach::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maps texts to `Job::Note` and counts the calls of the adapter. Panics if a text is not a number.
pub fn text_recipient(actor: &ActorRef<Job>) -> (Recipient<String>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let recipient = actor.map(move |text: String| {
        counted.fetch_add(1, Ordering::SeqCst);
        Job::Note(text.parse().unwrap_or_else(|_| panic!("{INJECTED}: {text} is not a number")))
    });
    (recipient, calls)
}

/// The text of a value, as a message.
pub fn text(n: impl ToString) -> String {
    n.to_string()
}
