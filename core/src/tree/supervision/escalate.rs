//! One step of an escalation: to the sink, or to the parent, whose own parent decides.

use crate::base::catch;
use crate::base::sync::Arc;
use crate::events::failure::FailureInfo;
use crate::tree::member::Member;
use crate::tree::supervision::retry;
use crate::tree::supervision::sink::sink_of;
use crate::tree::supervision::state::ChildAction;

/// Escalates a failure of a child of `parent`: to the sink, or to the parent itself, which has
/// failed by that. Returns the member that must handle the failure next.
pub(crate) fn escalate(
    parent: &Arc<dyn Member>,
    failure: &FailureInfo,
    exceeded: bool,
) -> Option<(Arc<dyn Member>, FailureInfo)> {
    let mut up = failure.escalated_to(parent);
    let sink = if up.has_no_sink() { None } else { sink_of(parent.node()) };
    let Some(sink) = sink else {
        up.set_has_no_sink(true);
        return Some((Arc::clone(parent), up));
    };
    let decides_above = || {
        catch::catch(|| sink.leads_to_parent()).unwrap_or_else(|reason| {
            parent.node().report_failure(reason);
            false
        })
    };
    if exceeded && !decides_above() {
        parent.apply_action(parent, ChildAction::Stop, up.clone());
    }
    retry::deliver(parent, sink, up);
    None
}
