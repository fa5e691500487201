//! [`ActorSample`]: what a sampler reads of one actor, and the walk over all actors of a tree.

use crate::base::sync::Arc;
use crate::tree::member::Member;
use crate::tree::walk::{Step, Walk};

/// One actor at one moment; passed to the visitor of
/// [`RootContext::sample_actors`](crate::RootContext::sample_actors).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActorSample {
    /// The label set by [`Props::label`](crate::Props::label), or the name of the message type.
    pub label: &'static str,
    /// How many messages wait in its mailbox.
    pub queued: usize,
    /// The capacity of the mailbox, or `None` if it is unbounded.
    pub capacity: Option<usize>,
}

/// Calls `visit` for each actor at or below `top`. Holds the lock of one node at a time.
pub(crate) fn visit(top: Arc<dyn Member>, visit: &mut dyn FnMut(&ActorSample)) {
    let mut walk = Walk::new(top, usize::MAX);
    loop {
        match walk.step() {
            Step::Visit(member, _) => {
                if let Some(actor) = member.facts().actor {
                    visit(&ActorSample { label: actor.label, queued: actor.queued, capacity: actor.capacity });
                }
            }
            Step::Nothing => {}
            Step::End => return,
        }
    }
}
