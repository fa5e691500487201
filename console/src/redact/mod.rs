//! Redaction: the one place where secrets are taken out of what leaves the console.
//!
//! | file | owns |
//! |---|---|
//! | `rules` | [`Redaction`]: which keys and texts are secret |
//! | `json` | JSON texts as spans, so that everything else stays as it was written |
//! | `values` | redaction of JSON values and JSON texts |
//! | `place` | what is known of a value from where it stands: its key, label, or the argument before it |
//! | `large` | redaction of JSON texts of any length, piece by piece |
//! | `text` | redaction of other texts: `key=value`, `Bearer …`, URLs with passwords, private keys |
//! | `embedded` | redaction of JSON within other texts |
//! | `restore` | gives redacted values back to an edited state |
//!
//! Invariants:
//! 1. Redacting twice is redacting once.
//! 2. A JSON text stays one, with as many lines, and every number outside of a secret keeps its
//!    digits.
//! 3. Restoring an unchanged redacted state gives the stored state.

mod embedded;
mod json;
mod large;
mod place;
mod restore;
mod rules;
mod text;
mod values;

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;

pub(crate) use place::Place;
pub use rules::Redaction;

/// What is shown instead of a secret.
pub(crate) const MARK: &str = "[redacted]";

/// How many texts inside of texts are looked into.
const LAYERS_MAX: usize = 8;
