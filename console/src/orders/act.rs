//! One action: its plan, and carrying it out.

use super::bulk::Bulks;
use super::log::{ActionLog, Entry, Place};
use super::plans::Plans;
use crate::action::{Action, Outcome, Plan, RunOrder};
use crate::failure::Failure;
use crate::redact::{MARK, Redaction};
use crate::settings::Settings;
use crate::source::Source;
use crate::sources::{Sources, alone};
use crate::view::ValueAt;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long an answer waits for what was begun. After that it continues, and is recorded.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// The longest reason, in characters.
const REASON_MAX: usize = 1_000;

/// Plans actions and carries them out.
pub(crate) struct Orders {
    pub(super) sources: Sources,
    pub(super) redaction: Arc<Redaction>,
    pub(crate) log: Arc<ActionLog>,
    pub(super) allows_actions: bool,
    user: String,
    plans: Plans<Planned>,
    pub(crate) bulks: Arc<Bulks>,
}

/// The body of `POST /api/act`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActRequest {
    action: Value,
    is_plan: bool,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    plan: Option<String>,
}

/// A plan that waits to be carried out.
struct Planned {
    /// As the browser sent it.
    sent: Action,
    /// With stored values in the places of redacted ones.
    action: Action,
    title: String,
    guard: String,
}

impl Orders {
    pub(crate) fn new(sources: Sources, redaction: Arc<Redaction>, settings: &Settings) -> Self {
        let (allows_actions, user) = (settings.allows_actions, settings.user.clone());
        let (log, bulks) = (Arc::new(ActionLog::new(Arc::clone(&redaction))), Arc::new(Bulks::new()));
        Self { sources, redaction, log, allows_actions, user, plans: Plans::new(), bulks }
    }

    /// Answers `POST /api/act`. The answer is not redacted yet.
    pub(crate) async fn act(&self, request: ActRequest) -> Result<Value, Failure> {
        let action = Action::parse(request.action)?;
        let source = Arc::clone(self.sources.find(action.source())?);
        let reason = request.reason.unwrap_or_default();
        check_reason(&reason)?;
        if request.is_plan {
            return self.plan(source, action).await;
        }
        let other = || Failure::new("bad_request", "this plan is for another action").advice("plan the action again");
        let planned = self.may_act().and_then(|()| self.plans.take(request.plan.as_deref()));
        let planned = match planned.and_then(|planned| if planned.sent == action { Ok(planned) } else { Err(other()) }) {
            Ok(planned) => planned,
            Err(failure) => {
                self.record(&action, &action.title(), &reason, &Err(failure.clone()));
                return Err(failure);
            }
        };
        self.plans.note_used(request.plan);
        let done = self.begin(source, planned, reason);
        let late = || Failure::new("timed_out", format_args!("no result within {} s", ANSWERED_WITHIN.as_secs()));
        let outcome = timeout(ANSWERED_WITHIN, done)
            .await
            .unwrap_or_else(|_| Err(late().advice("it may still happen; look at the record of actions")))?;
        Ok(json!(outcome))
    }

    /// Refuses if the console is read-only.
    pub(super) fn may_act(&self) -> Result<(), Failure> {
        if self.allows_actions {
            return Ok(());
        }
        Err(Failure::new("read_only", "this console is read-only, so nothing was done")
            .advice("start it with `allow_actions`, or `pleach console --write`; or use the command"))
    }

    async fn plan(&self, source: Arc<dyn Source>, sent: Action) -> Result<Value, Failure> {
        let action = self.resolve(&source, sent.clone()).await?;
        let plan = plan_alone(source, action.clone()).await?;
        let is_allowed = self.allows_actions && plan.refusal.is_none();
        let mut answer = serde_json::to_value(&plan).unwrap_or_default();
        if self.hides_command(&action, plan.command.as_deref())? {
            answer["command"] = Value::Null;
        }
        let Plan { title, guard, .. } = plan;
        let bytes = sent.bytes() + action.bytes();
        let id = self.plans.keep(Planned { sent, action, title, guard }, bytes)?;
        answer["plan"] = Value::from(id);
        answer["is_allowed"] = Value::from(is_allowed);
        Ok(answer)
    }

    /// Returns whether the command of a plan is left out: with a mark in it, it would do something else.
    fn hides_command(&self, action: &Action, command: Option<&str>) -> Result<bool, Failure> {
        let value = match action {
            Action::Store(order) => match &order.order {
                RunOrder::Fork { state, .. } => state.as_deref(),
                RunOrder::Answer { value, .. } | RunOrder::Signal { value, .. } => Some(value.as_str()),
                _ => None,
            },
            _ => None,
        };
        let texts = [command, value];
        self.redaction.guarded(|rules| Ok(texts.into_iter().flatten().any(|text| rules.string(text) != text)))
    }

    /// Carries out a plan in a task of its own, and records what happened.
    fn begin(
        &self,
        source: Arc<dyn Source>,
        planned: Planned,
        reason: String,
    ) -> impl Future<Output = Result<Outcome, Failure>> + use<> {
        let record = self.recorder();
        let task = tokio::spawn(async move {
            let Planned { sent, action, title, guard } = planned;
            let outcome = alone(async move { source.carry_out(&action, &guard).await }).await;
            record(&sent, &title, &reason, &outcome);
            outcome
        });
        async { task.await.unwrap_or_else(|error| Err(Failure::new("internal", error))) }
    }

    fn record(&self, action: &Action, title: &str, reason: &str, outcome: &Result<Outcome, Failure>) {
        self.recorder()(action, title, reason, outcome);
    }

    /// Returns what the record of actions says about a source.
    pub(crate) fn place(&self, source: &str) -> Place {
        self.sources.find(source).map(|source| self.log.place(&source.describe())).unwrap_or_default()
    }

    /// Returns a function that records what happened.
    pub(super) fn recorder(&self) -> impl Fn(&Action, &str, &str, &Result<Outcome, Failure>) + Send + Sync + use<> {
        let (log, who, sources) = (Arc::clone(&self.log), self.user.clone(), self.sources.clone());
        move |action, title, reason, outcome| {
            let (outcome, text) = said(outcome);
            log.add(Entry {
                seq: 0,
                at: String::new(),
                who: who.clone(),
                reason: reason.to_string(),
                kind: action.kind(),
                subject: action.subject().filter(|subject| !subject.is_empty()).map(str::to_string),
                source: action.source().to_string(),
                place: sources.find(action.source()).map(|source| log.place(&source.describe())).unwrap_or_default(),
                title: title.to_string(),
                outcome,
                text,
            });
        }
    }

    /// Gives redacted values back to the state of a fork. Refuses marks in other values.
    pub(super) async fn resolve(&self, source: &Arc<dyn Source>, mut action: Action) -> Result<Action, Failure> {
        let Action::Store(order) = &mut action else { return Ok(action) };
        match &mut order.order {
            RunOrder::Fork { record, state: Some(state), .. } if self.redaction.has_mark(state) => {
                let at =
                    ValueAt { store: order.store.clone(), run: order.run.clone(), record: Some(*record), ..ValueAt::default() };
                let source = Arc::clone(source);
                let stored = alone(async move { source.text(&at).await }).await?;
                *state = self.redaction.restore(state, &stored.text)?;
            }
            RunOrder::Answer { value, .. } | RunOrder::Signal { value, .. } if self.redaction.has_mark(value) => {
                return Err(
                    Failure::new("redacted", format_args!("the value contains {MARK}")).advice("write the value itself")
                );
            }
            _ => {}
        }
        Ok(action)
    }
}

/// Refuses a reason that is too long: each entry of the record has it.
pub(super) fn check_reason(reason: &str) -> Result<(), Failure> {
    if reason.chars().count() <= REASON_MAX {
        return Ok(());
    }
    Err(Failure::new("bad_request", format_args!("the reason has at most {REASON_MAX} characters")))
}

pub(super) async fn plan_alone(source: Arc<dyn Source>, action: Action) -> Result<Plan, Failure> {
    alone(async move { source.plan(&action).await }).await
}

/// Returns the outcome and the text of an entry.
pub(super) fn said(outcome: &Result<Outcome, Failure>) -> (String, String) {
    match outcome {
        Ok(outcome) => (outcome.outcome.clone(), outcome.text.clone()),
        Err(failure) => {
            let is_refusal = [
                "changed",
                "used",
                "not_allowed",
                "protected",
                "not_possible",
                "refused",
                "read_only",
                "not_found",
                "conflict",
            ]
            .contains(&failure.code.as_str());
            (if is_refusal { "refused" } else { "failed" }.to_string(), failure.text.clone())
        }
    }
}
