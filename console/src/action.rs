//! [`Action`]: everything that the page can order, what it will do ([`Plan`]), and what it did
//! ([`Outcome`]).

use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Display;

/// Something that a person orders. `docs/console-api.md` lists the kinds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Action {
    Process(ProcessAction),
    Store(StoreAction),
}

impl Action {
    /// Reads an action. Unknown fields are refused.
    pub(crate) fn parse(value: Value) -> Result<Self, Failure> {
        let wrong = |error: &dyn Display| Failure::new("bad_request", format_args!("the action is wrong: {error}"));
        if value.get("process").is_some() {
            return serde_json::from_value(value).map(Self::Process).map_err(|error| wrong(&error));
        }
        let action: StoreAction = serde_json::from_value(value.clone()).map_err(|error| wrong(&error))?;
        let known = serde_json::to_value(&action).unwrap_or_default();
        let unknown = value.as_object().and_then(|fields| fields.keys().find(|field| known.get(field).is_none()));
        match unknown {
            Some(field) => Err(wrong(&format_args!("unknown field {field:?}"))),
            None => Ok(Self::Store(action)),
        }
    }

    /// Returns the key of the source that carries it out.
    pub(crate) fn source(&self) -> &str {
        match self {
            Self::Process(action) => &action.process,
            Self::Store(action) => &action.store,
        }
    }

    /// Returns the kind, as the page names it.
    pub(crate) fn kind(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        value["kind"].as_str().unwrap_or_default().to_string()
    }

    /// Returns the order and its subject, for orders that were not planned.
    pub(crate) fn title(&self) -> String {
        match (self, self.subject().filter(|subject| !subject.is_empty())) {
            (Self::Process(ProcessAction { kind: ProcessOrder::LogLevel, .. }), _) => "Set the log level".to_string(),
            (Self::Process(_), Some(path)) => format!("{} {path}", self.verb()),
            (Self::Store(_), Some(run)) => format!("{} run {run}", self.verb()),
            (_, None) => self.verb(),
        }
    }

    /// Returns the kind as the first word of a title.
    pub(crate) fn verb(&self) -> String {
        let kind = self.kind();
        kind.get(..1).map_or_else(String::new, |first| first.to_uppercase()) + kind.get(1..).unwrap_or_default()
    }

    /// Returns about how many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        serde_json::to_string(self).map_or(0, |json| json.len())
    }

    /// Returns the path of the member, or the id of the run, that it is about.
    pub(crate) fn subject(&self) -> Option<&str> {
        match self {
            Self::Process(action) => action.path.as_deref(),
            Self::Store(action) => Some(&action.run),
        }
    }
}

/// An action on a member of a process, or on the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProcessAction {
    pub(crate) kind: ProcessOrder,
    /// The key of the process.
    pub(crate) process: String,
    #[serde(default)]
    pub(crate) path: Option<String>,
    /// The member at the path must have this id.
    #[serde(default)]
    pub(crate) member_id: Option<u64>,
    /// The new log level.
    #[serde(default)]
    pub(crate) level: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProcessOrder {
    Stop,
    Restart,
    Suspend,
    Resume,
    LogLevel,
}

/// An action on a run of a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct StoreAction {
    /// The key of the store.
    pub(crate) store: String,
    /// The id of the run. Empty in a bulk action.
    #[serde(default)]
    pub(crate) run: String,
    #[serde(flatten)]
    pub(crate) order: RunOrder,
}

/// What a run is to do. Values are JSON texts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum RunOrder {
    Pause,
    Continue,
    Cancel {
        #[serde(default)]
        cancel_reason: String,
    },
    Answer {
        key: String,
        value: String,
    },
    Signal {
        name: String,
        value: String,
    },
    Rewind {
        record: u64,
    },
    Fork {
        record: u64,
        new: String,
        #[serde(default)]
        state: Option<String>,
    },
    Retry,
    Unstick,
    Delete,
}

/// What an action will do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// One line: the order and its subject.
    pub(crate) title: String,
    /// The consequences, one sentence each.
    pub(crate) will: Vec<String>,
    /// What would run again, for actions that go back in a run.
    pub(crate) preview: Option<Value>,
    /// Why it would be refused, if it would be.
    pub(crate) refusal: Option<String>,
    pub(crate) is_destructive: bool,
    /// The command that does the same.
    pub(crate) command: Option<String>,
    /// What must not change until it is carried out: the number of the member, or the record and
    /// status of the run.
    #[serde(skip)]
    pub(crate) guard: String,
    /// The run that was found; `None` for a member, and for a run whose row is damaged.
    #[serde(skip)]
    pub(crate) found: Option<FoundRun>,
}

/// A run as a plan found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundRun {
    pub(crate) status: String,
    /// When it was created, as lists of runs say it.
    pub(crate) created: String,
}

/// What an action did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Outcome {
    /// `done`, `stored`, `taken` or `refused`.
    pub(crate) outcome: String,
    pub(crate) text: String,
    pub(crate) record: Option<u64>,
    pub(crate) run: Option<String>,
}
