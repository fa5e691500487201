//! [`Explanation`]: why something does not continue, in the order in which a reader needs it.

use serde::Serialize;

/// Stands between a command and what it does, as a comment of a shell.
pub const COMMENT: &str = "  # ";

/// Why something does not continue: the deepest cause, what follows from it, what else is known,
/// and what to do. Each part is a list of sentences without a full stop.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Explanation {
    /// The deepest cause. Several sentences if there are several causes.
    pub cause: Vec<String>,
    /// What follows from it, the deepest first.
    pub so: Vec<String>,
    /// What else is known: earlier failures, restarts, problems above.
    pub note: Vec<String>,
    /// What to do. A command is followed by [`COMMENT`] and what it does.
    #[serde(rename = "do")]
    pub advice: Vec<String>,
}
