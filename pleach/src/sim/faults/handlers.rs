//! Faults in the messages of actors: what the trees of a simulation ask for each message.

use crate::runtime::{HandlerFault, HandlerFaults, Runtime};
use crate::sim::faults::FaultKind;
use crate::sim::faults::injector::{Decision, Injector};
use crate::sim::faults::kind::SiteKind;
use std::fmt;
use std::sync::Arc;

/// The messages of the actors that pleach itself starts below `/user`: the control actors of runs
/// and workers.
const OWN_MESSAGES: [&str; 2] = ["::RunMessage", "::WorkerMessage"];

/// The part of an [`Injector`] that trees use.
pub(in crate::sim) struct SimHandlerFaults {
    pub(in crate::sim) injector: Arc<Injector>,
    pub(in crate::sim) runtime: Arc<dyn Runtime>,
}

impl HandlerFaults for SimHandlerFaults {
    fn next_fault(&self, actor: &dyn fmt::Display, message_type: &'static str) -> Option<HandlerFault> {
        let site = actor.to_string();
        let is_own = message_type.starts_with("pleach_graph::") && OWN_MESSAGES.iter().any(|own| message_type.ends_with(own));
        let is_internal = is_own || site.starts_with("/system/");
        let Decision { kind, text, .. } = self.injector.decide(SiteKind::Handler, &site, is_internal, self.runtime.now())?;
        match kind {
            FaultKind::CrashBefore => Some(HandlerFault::CrashBefore(text)),
            FaultKind::CrashAfter => Some(HandlerFault::CrashAfter(text)),
            _ => Some(HandlerFault::Fail(text)),
        }
    }
}
