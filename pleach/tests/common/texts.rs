//! What the tests of adapters share: an actor that is busy, and one who speaks to it in texts.

use crate::common::{Doer, Gate, INJECTED, Job, Log};
use pleach::prelude::*;
use pleach::sim::Sim;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Notes the numbers of texts, and counts how often it is asked to.
pub fn numbers(actor: &ActorRef<Job>) -> (Recipient<String>, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&runs);
    let adapted = actor.map(move |text: String| {
        seen.fetch_add(1, Ordering::SeqCst);
        Job::Note(text.parse().unwrap_or_else(|_| panic!("{INJECTED}: {text} is no number")))
    });
    (adapted, runs)
}

/// An actor that has just begun a message it waits in.
pub fn busy(sim: &Sim, system: &ActorSystem, mailbox: Mailbox) -> (ActorRef<Job>, Log<String>, Gate) {
    let (log, gate) = (Log::new(), Gate::new());
    let actor = system.spawn("doer", Doer::props(&log).mailbox(mailbox)).unwrap();
    actor.tell(Job::Pass(gate.clone(), 1_000)).unwrap();
    sim.settle();
    log.take();
    (actor, log, gate)
}

pub fn text(n: impl ToString) -> String {
    n.to_string()
}
