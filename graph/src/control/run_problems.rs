//! [`RunProblem`]: what is wrong with a run, as its view tells, with what to do.

use crate::control::RunView;
use crate::control::delivery::Described;
use crate::store::{GraphVersion, RunStatus, Timestamp};
use std::fmt;
use std::time::Duration;

/// How long a due run may be unclaimed. Workers claim due runs within seconds.
const UNCLAIMED_MAX: Duration = Duration::from_secs(60);

/// A problem of a run: what is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunProblem {
    /// What is wrong with the run. A failure can contain the error text of a node.
    pub text: String,
    /// What an operator can do about it.
    pub advice: String,
}

impl fmt::Display for RunProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.text, self.advice)
    }
}

impl RunView {
    /// Returns what is wrong with the run at this time of the store's clock: its failure, a reason
    /// why it could not be executed, no worker that claims it, and waits that refused a message.
    ///
    /// # Examples
    ///
    /// ```
    /// use pleach::prelude::*;
    /// use std::time::SystemTime;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = Graph::<u32>::new("order")
    ///     .add_node("pay", |_: u32| async { Err::<u32, _>("the card expired") })
    ///     .add_edge("pay", END)
    ///     .set_entry("pay")
    ///     .compile()?;
    /// let store = MemoryStore::new();
    /// graph.run(1).id("order-1").checkpoint(&store).await.unwrap_err();
    ///
    /// let view = RunRemote::new(&store, "order-1").view().await?;
    /// let problems = view.problems(SystemTime::now().into());
    /// assert!(problems[0].text.contains("the card expired") && problems[0].advice.contains("retry"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn problems(&self, now: Timestamp) -> Vec<RunProblem> {
        let mut problems = Vec::new();
        let mut add = |text: String, advice: String| problems.push(RunProblem { text, advice });
        if let Some(failure) = self.failure.as_ref().filter(|failure| failure.is_final) {
            let advice = "remove the cause, then retry the run, or rewind it to an earlier record";
            add(format!("run {:?} failed {failure}", self.run), advice.to_string());
        }
        if let Some(trouble) = &self.trouble {
            let advice = match self.status {
                RunStatus::Stuck => "no worker tries again: remove the cause, then resume it with `take_over`",
                _ => "a worker tries again: remove the cause",
            };
            add(format!("run {:?} could not be executed: {trouble}", self.run), advice.to_string());
        }
        if let Some(due) = self.due.filter(|due| due.after(UNCLAIMED_MAX) <= now) {
            let GraphVersion { fingerprint, schema } = &self.version;
            let waited = Duration::from_secs(now.since(due).as_secs());
            let text = format!("run {:?} has been due for {waited:?}, and no worker has claimed it", self.run);
            let needed = format!("graph {:?} ({fingerprint}, schema {schema})", self.graph);
            add(text, format!("start a worker that serves {needed}, or deploy a migration"));
        }
        for refused in self.waits().filter_map(|wait| wait.refused.as_ref()) {
            let what = Described(&refused.name);
            let text = format!("run {:?} refused {what}: {}; it keeps waiting", self.run, refused.cause);
            add(text, refused.advice());
        }
        problems
    }
}
