//! Actions on a member: which are offered, and what they would do.

use super::wish::Order;
use crate::live::act::{consequence, word};
use crate::output::times::short;
use crate::screen::widgets::{Confirm, Hint};
use pleach::inspect::{Hello, InspectAction, MemberInfo, Supervision};

/// An action with its key.
pub struct Offer {
    pub action: InspectAction,
    pub key: char,
    pub name: &'static str,
    pub hint: Hint,
}

/// All actions that this view knows.
pub const OFFERS: [Offer; 4] = [
    Offer { action: InspectAction::Restart, key: 'r', name: "restart", hint: Hint::new("r", "restart") },
    Offer { action: InspectAction::Suspend, key: 's', name: "suspend", hint: Hint::new("s", "suspend") },
    Offer { action: InspectAction::Resume, key: 'u', name: "resume", hint: Hint::new("u", "resume") },
    Offer { action: InspectAction::Stop, key: 'x', name: "stop", hint: Hint::new("x", "stop") },
];

/// Returns why an action is not offered, and what to do.
pub fn refusal(offer: &Offer, hello: Option<&Hello>, can_write: bool) -> Option<String> {
    let name = offer.name;
    let Some(hello) = hello else { return Some("there is no connection to the process".to_string()) };
    if !hello.actions.contains(&offer.action) {
        return Some(format!("this process does not allow {name}: it must pass it to `InspectOptions::allow`"));
    }
    (!can_write).then(|| format!("read-only: start `pleach top` with --write to {name} members"))
}

/// Returns the question for an action, with its consequence.
pub fn confirm(action: InspectAction, member: &MemberInfo) -> (Confirm, Order) {
    let path = &member.path;
    let mut consequence = consequence(action, member, &Supervision::default());
    if let Some(first) = consequence.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    consequence.push('.');
    let actor = member.actor.as_ref();
    if let Some((actor, capacity)) = actor.and_then(|actor| actor.capacity.map(|capacity| (actor, capacity)))
        && action == InspectAction::Suspend
    {
        let room = capacity.saturating_sub(actor.queued);
        consequence.push_str(&format!(" Its mailbox has room for {room} more; then senders wait or fail."));
    }
    if let Some(running) = member.handling_for() {
        consequence.push_str(&format!(" It has handled its current message for {}.", short(running)));
    }
    let verb = word(action);
    let capital = format!("{}{}", verb[..1].to_uppercase(), &verb[1..]);
    let confirm = Confirm { question: format!("{capital} {path}?"), consequence, yes: format!("{verb} it") };
    (confirm, Order { action, path: path.clone(), id: member.id })
}
