//! A system on a given runtime, and an actor that counts its messages.

use pleach::BoxError;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Builds a system named `d` on this runtime.
pub fn system_on(runtime: Arc<dyn Runtime>) -> ActorSystem {
    ActorSystem::builder("d").runtime(runtime).build().unwrap()
}

/// An actor that adds one to `handled` for each message.
pub fn counter(handled: &Arc<AtomicUsize>) -> Props<impl Actor<Msg = u32>> {
    let handled = Arc::clone(handled);
    let count = move |(): &mut (), _: u32| {
        handled.fetch_add(1, Ordering::SeqCst);
        Ok::<(), BoxError>(())
    };
    Props::from_fn(|| (), count)
}
