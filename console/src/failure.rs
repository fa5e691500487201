//! [`Failure`]: why a request of the page failed.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a request failed: a code for programs, a text for people, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The kind of failure, such as `not_found`, `read_only`, `unreachable` or `bad_request`.
    pub code: String,
    /// What failed and why.
    pub text: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Failure {
    /// Returns a failure without advice.
    pub fn new(code: &str, text: impl fmt::Display) -> Self {
        Self { code: code.to_string(), text: text.to_string(), advice: None }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn advice(mut self, advice: impl fmt::Display) -> Self {
        self.advice = Some(advice.to_string());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.advice {
            Some(advice) => write!(f, "{} ({}); {advice}", self.text, self.code),
            None => write!(f, "{} ({})", self.text, self.code),
        }
    }
}

impl std::error::Error for Failure {}
