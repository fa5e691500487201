//! What the show and its worker process say to each other: one JSON object per line.
//!
//! The show writes [`Order`]s to the worker's standard input. The end of that input means that the
//! show has died: the worker then ends at once. The worker writes [`Note`]s to its standard output.

use pleach::prelude::Counts;
use serde::{Deserialize, Serialize};

/// What the show orders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// Send an actor a message that panics its handler.
    Poison { path: String },
    /// Send an actor many messages at once.
    Overload { path: String },
    /// Send nothing, and start no step of a run.
    Pause,
    /// Continue after [`Order::Pause`].
    Continue,
    /// Handle what is queued, report the account, and end.
    Finish,
}

/// What the worker reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// The socket is open. The first note of a worker.
    Ready { picked_up: Vec<PickedUp> },
    /// The supervisor of a member decided about its failure.
    Decided(Decided),
    /// A member runs again.
    Restarted { path: String },
    /// A supervisor exceeded its restart limit.
    GaveUp { supervisor: String, child: String, restarts: u32, window_ms: u64 },
    /// A full mailbox handed a poisonous message back.
    Returned { path: String },
    /// Messages of an actor became dead letters since the pulse before.
    DeadLetters { path: String, count: u64, are_dropped: bool },
    /// An actor was sent many messages at once.
    Overloaded { path: String, sent: u64, returned: u64 },
    /// A run begins a step.
    Step { run: String, step: String },
    /// A run asks for an approval.
    Asks { run: String, cents: u64 },
    /// A run has ended: `None` if it finished, else why it failed.
    Ended { run: String, failure: Option<String> },
    /// What became of all messages so far.
    Pulse(Account),
    /// What became of all messages. The last note of a worker.
    Final(Box<FinalAccount>),
}

/// A failure, and what the supervisor decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    pub path: String,
    pub directive: Directive,
    pub reason: String,
    pub is_panic: bool,
    /// Whether the failure comes from below.
    pub is_escalated: bool,
    /// How many restarts count within the window, and the wait before this one.
    pub restarts: u32,
    pub delay_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directive {
    Restart,
    Stop,
    Escalate,
    Other,
}

/// A run that an earlier worker process began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PickedUp {
    pub run: String,
    /// The last durable record.
    pub record: u64,
    /// The step that is next, or several.
    pub next: Vec<String>,
}

/// The messages of a worker process. The senders keep their own tally: `sent` and `returned` are
/// counted outside of pleach, everything else by the actors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// How many messages were sent, and how many of them a full mailbox handed back.
    pub sent: u64,
    pub returned: u64,
    pub counts: Counts,
    /// How often a handler was entered, as the handlers count.
    pub entered: u64,
    pub failures: u64,
    pub restarts: u64,
}

/// The account of one actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorAccount {
    pub path: String,
    #[serde(flatten)]
    pub account: Account,
}

/// What became of all messages of a worker process that ended in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalAccount {
    pub actors: Vec<ActorAccount>,
    pub total: Account,
    /// The messages of the whole system, with those of pleach's own actors.
    pub system: Counts,
    /// How many failures a supervisor decided about, escalations not counted again.
    pub decided: u64,
    /// How many failures no supervisor handled.
    pub unhandled: u64,
}

impl Account {
    /// Returns the messages that are queued or being handled.
    pub fn in_flight(&self) -> u64 {
        self.counts.open()
    }

    /// Returns what does not add up after the actor has ended, if anything.
    fn fault(&self) -> Option<String> {
        let Self { sent, returned, counts, entered, .. } = self;
        if *sent != returned + counts.accepted {
            return Some(format!("{sent} messages were sent, but {returned} returned and {} accepted", counts.accepted));
        }
        if !counts.is_settled() {
            return Some(format!("the counts do not add up: {counts}"));
        }
        let handled = counts.handled + counts.failed;
        (handled != *entered).then(|| format!("handlers were entered {entered} times, but {handled} messages are counted"))
    }
}

impl std::ops::AddAssign for Account {
    fn add_assign(&mut self, more: Self) {
        self.sent += more.sent;
        self.returned += more.returned;
        self.counts += more.counts;
        self.entered += more.entered;
        self.failures += more.failures;
        self.restarts += more.restarts;
    }
}

impl FinalAccount {
    /// Returns what does not add up, if anything.
    pub fn fault(&self) -> Option<String> {
        let of_actor = |actor: &ActorAccount| Some(format!("{}: {}", actor.path, actor.account.fault()?));
        let system = || (!self.system.is_settled()).then(|| format!("the counts of the system do not add up: {}", self.system));
        let Account { failures, .. } = self.total;
        let undecided = || {
            (self.decided != failures).then(|| format!("{failures} failures, but {} decisions of supervisors", self.decided))
        };
        let unhandled = || (self.unhandled > 0).then(|| format!("no supervisor handled {} failures", self.unhandled));
        self.actors.iter().find_map(of_actor).or_else(system).or_else(undecided).or_else(unhandled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> FinalAccount {
        let counts = Counts { accepted: 9, handled: 6, failed: 1, dead_lettered: 2 };
        let account = Account { sent: 10, returned: 1, counts, entered: 7, failures: 1, restarts: 1 };
        let actors = vec![ActorAccount { path: "/user/shop/stock".into(), account }];
        FinalAccount { actors, total: account, system: counts, decided: 1, unhandled: 0 }
    }

    #[test]
    fn matching_account_has_no_fault() {
        assert_eq!(account().fault(), None);
    }

    #[test]
    fn every_difference_is_a_fault() {
        let fault_of = |change: fn(&mut FinalAccount)| {
            let mut account = account();
            change(&mut account);
            account.fault().unwrap_or_default()
        };
        assert!(fault_of(|account| account.actors[0].account.sent = 11).starts_with("/user/shop/stock: 11 messages were sent"));
        assert!(fault_of(|account| account.actors[0].account.counts.handled = 5).contains("do not add up"));
        assert!(fault_of(|account| account.actors[0].account.entered = 8).contains("entered 8 times, but 7"));
        assert!(fault_of(|account| account.system.accepted = 10).contains("of the system do not add up"));
        assert!(fault_of(|account| account.decided = 0).contains("1 failures, but 0 decisions"));
        assert!(fault_of(|account| account.unhandled = 1).contains("no supervisor handled 1"));
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let note = Note::Final(Box::new(account()));
        let line = serde_json::to_string(&note).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Note>(&line).unwrap(), note);
        let order = Order::Poison { path: "/user/shop/stock".into() };
        assert_eq!(serde_json::from_str::<Order>(&serde_json::to_string(&order).unwrap()).unwrap(), order);
    }
}
