//! [`Supervision`]: what would follow a failure of a member, and what an order to it will do, in
//! words.

use crate::inspect::events::{directive_name, micros};
use crate::inspect::options::InspectAction;
use crate::inspect::{MemberInfo, MemberKind};
use pleach_core::{ActorPath, AnyRef, RestartPolicy};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How many siblings a sentence names.
const NAMED_MAX: usize = 3;

/// What would follow a failure of a member now: the answer to `supervision`.
///
/// The default value is that of a process which does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Supervision {
    /// The parent, which supervises the member. `None` for the root.
    #[serde(default)]
    pub supervisor: Option<ActorPath>,
    /// Which exits lead to a restart: `permanent`, `transient` or `temporary`.
    #[serde(default)]
    pub policy: String,
    /// The strategy of the supervisor, such as `one_for_all`, or `default` without one.
    #[serde(default)]
    pub strategy: String,
    /// What follows a failure: `resume`, `restart`, `stop` or `escalate`. `None` if the strategy
    /// decides about each failure.
    #[serde(default)]
    pub directive: Option<String>,
    /// Whether one more restart exceeds the limit, so the supervisor gives up.
    #[serde(default)]
    pub gives_up: bool,
    /// How many restarts count within the window now.
    #[serde(default)]
    pub restarts: u32,
    /// How many restarts are allowed within the window, or `None` for no limit.
    #[serde(default)]
    pub limit: Option<u32>,
    /// The window of the limit, in microseconds.
    #[serde(default)]
    pub window_us: u64,
    /// The siblings that would stop or restart too, in start order, at most 32.
    #[serde(default)]
    pub also: Vec<ActorPath>,
    /// How many further siblings are not listed.
    #[serde(default)]
    pub also_left_out: u64,
}

impl Supervision {
    /// Reads the supervision of a member.
    pub(super) fn of(member: &AnyRef) -> Self {
        let Some(info) = member.supervision() else { return Self::default() };
        let policy = match info.policy {
            RestartPolicy::Permanent => "permanent",
            RestartPolicy::Transient => "transient",
            RestartPolicy::Temporary => "temporary",
            _ => "other",
        };
        Self {
            supervisor: Some(info.supervisor),
            policy: policy.to_string(),
            strategy: info.strategy.to_string(),
            directive: info.directive.map(|directive| directive_name(directive).to_string()),
            gives_up: info.gives_up,
            restarts: info.restarts.map_or(0, |restarts| restarts.used),
            limit: info.restarts.and_then(|restarts| restarts.allowed),
            window_us: info.restarts.map_or(0, |restarts| micros(restarts.window)),
            also: info.siblings,
            also_left_out: info.siblings_left_out as u64,
        }
    }

    /// Says what an order will do to `member` and to others, one sentence each. Empty for
    /// [`InspectAction::LogLevel`].
    ///
    /// ```
    /// use pleach::inspect::{InspectAction, InspectOptions, Inspector};
    /// use pleach::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let system = ActorSystem::new("shop")?;
    /// let till = system.spawn("till", Props::from_fn(|| (), |_, _: u32| Ok::<(), &str>(())))?;
    /// let mut client = Inspector::new(&system, InspectOptions::in_memory()).connect().await?;
    /// let (member, supervision) = (client.member(&till.path()).await?, client.supervision(&till.path()).await?);
    /// assert_eq!(
    ///     supervision.consequences(InspectAction::Stop, &member),
    ///     ["it stops", "it is not restarted: it is transient, and an ordered stop is no failure"]
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub fn consequences(&self, action: InspectAction, member: &MemberInfo) -> Vec<String> {
        match action {
            InspectAction::Stop => self.of_stop(member),
            InspectAction::Restart => self.of_restart(member),
            InspectAction::Suspend => {
                let now = if queued(member) == 0 { "messages wait" } else { "its queued messages wait, and so do new ones" };
                vec![format!("it handles no message until it is resumed{}; {now} meanwhile", after(member))]
            }
            InspectAction::Resume => vec![match queued(member) {
                0 => "it handles messages again".to_string(),
                queued => format!("it handles messages again, first {}", messages(queued)),
            }],
            _ => Vec::new(),
        }
    }

    fn of_stop(&self, member: &MemberInfo) -> Vec<String> {
        let verb = match member.kind {
            MemberKind::Task | MemberKind::BlockingJob => "it is cancelled",
            _ => "it stops",
        };
        let mut will = vec![format!("{verb}{}{}", with_children(member), after(member))];
        let fails = member.kind == MemberKind::Actor && self.policy == "permanent";
        if fails {
            will.extend(self.of_unexpected_exit());
        } else {
            will.push(match self.policy.as_str() {
                "" => "it is not restarted, unless it is permanent".to_string(),
                policy => format!("it is not restarted: it is {policy}, and an ordered stop is no failure"),
            });
        }
        let keeps_mailbox = fails && matches!(self.directive.as_deref(), Some("restart" | "resume"));
        match queued(member) {
            0 => {}
            queued if keeps_mailbox => will.push(format!("{} stay in the mailbox", messages(queued))),
            queued if fails && self.directive.is_none() => {
                will.push(format!("{} become dead letters, unless it is restarted", messages(queued)));
            }
            1 => will.push("1 queued message becomes a dead letter".to_string()),
            queued => will.push(format!("{} become dead letters", messages(queued))),
        }
        will
    }

    /// A permanent member that ends without an order of its supervisor has failed.
    fn of_unexpected_exit(&self) -> Vec<String> {
        let supervisor = self.supervisor.as_ref().map_or_else(String::new, |path| format!(" {path}"));
        let does = match self.directive.as_deref() {
            Some("restart") => format!("starts it again (restart {}{})", self.restarts.saturating_add(1), self.limit_text()),
            Some("escalate") if self.gives_up => {
                format!("gives up, because its restarts are used: {}{}", self.restarts, self.limit_text())
            }
            Some("stop") if self.gives_up => {
                format!("leaves it stopped, because its restarts are used: {}{}", self.restarts, self.limit_text())
            }
            Some("stop") => "leaves it stopped".to_string(),
            Some("resume") => "lets it continue with its state".to_string(),
            Some("escalate") => "passes the failure to its own parent".to_string(),
            _ => format!("decides what follows, by its strategy {}", self.strategy),
        };
        let mut will = vec![format!("it is permanent, so supervisor{supervisor} treats that as a failure and {does}")];
        if !self.also.is_empty() {
            let what = match self.directive.as_deref() {
                Some("restart") => "siblings that restart with it",
                Some(_) => "siblings that stop with it",
                None => "if it is restarted, siblings that restart with it",
            };
            will.push(format!("{what} ({}): {}", self.strategy, self.also_text()));
        }
        will
    }

    fn of_restart(&self, member: &MemberInfo) -> Vec<String> {
        let mut will = vec![match member.kind {
            MemberKind::Supervisor | MemberKind::Pool => format!("it starts again{}", with_children(member)),
            _ => format!("its state is lost and it starts again{}{}", with_children(member), after(member)),
        }];
        match queued(member) {
            0 => {}
            1 => will.push("1 queued message stays in the mailbox".to_string()),
            queued => will.push(format!("{} stay in the mailbox", messages(queued))),
        }
        will.push("its siblings continue, and an ordered restart does not count towards the limit".to_string());
        will
    }

    /// ` of 3 in 5s`, or nothing without a limit.
    fn limit_text(&self) -> String {
        let window = Duration::from_micros(self.window_us);
        self.limit.map_or_else(String::new, |limit| format!(" of {limit} in {window:?}"))
    }

    fn also_text(&self) -> String {
        let named: Vec<String> = self.also.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        let others = (self.also.len() - named.len()) as u64 + self.also_left_out;
        match others {
            0 => named.join(", "),
            1 => format!("{} and 1 other", named.join(", ")),
            others => format!("{} and {others} others", named.join(", ")),
        }
    }
}

fn queued(member: &MemberInfo) -> u64 {
    member.actor.as_ref().map_or(0, |actor| actor.queued + actor.stashed)
}

fn messages(queued: u64) -> String {
    if queued == 1 { "1 queued message".to_string() } else { format!("{queued} queued messages") }
}

fn with_children(member: &MemberInfo) -> String {
    match member.children {
        0 => String::new(),
        1 => " with its child".to_string(),
        children => format!(" with its {children} children"),
    }
}

fn after(member: &MemberInfo) -> &'static str {
    if member.handling_for().is_some() { " after its current message" } else { "" }
}
