//! [`ActorSample`]: what a sampler reads of one actor, and the walk over all actors of a tree.
//!
//! The walk takes the lock of one node or one mailbox at a time, and sends nothing to an actor.

use crate::tree::member::Member;
use alloc::sync::Arc;
use alloc::vec;

/// One actor at one moment; passed to the visitor of
/// [`RootContext::sample_actors`](crate::RootContext::sample_actors).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActorSample {
    /// The label set by [`Props::label`](crate::Props::label), or the name of the message type.
    pub label: &'static str,
    /// How many messages are queued.
    pub queued: usize,
    /// The capacity of the mailbox, or `None` if it is unbounded.
    pub capacity: Option<usize>,
}

/// Calls `visit` for each actor at or below `top`.
pub(crate) fn visit(top: Arc<dyn Member>, visit: &mut dyn FnMut(&ActorSample)) {
    let mut members = vec![top];
    while let Some(member) = members.pop() {
        if let Some(sample) = member.sample() {
            visit(&sample);
        }
        members.extend(member.node().children());
    }
}
