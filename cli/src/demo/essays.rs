//! The graph of the demo's durable runs. An essay is planned, drafted in three branches at once,
//! and polished until it is good. Each draft costs money, which is charged outside: in a file that
//! survives the demo.

use pleach::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The duration of a step. It leaves time to kill the demo.
const STEP: Duration = Duration::from_millis(150);

/// The state of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Essay {
    pub topic: String,
    pub words: Vec<String>,
    pub score: u32,
    pub cents: u32,
}

/// A file with one line per charge. A restart of the demo does not revert it.
#[derive(Clone)]
pub struct Till(PathBuf);

impl Till {
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Charges once for `key`. A line is one write, so a kill leaves a whole line or none.
    fn charge(&self, key: &str) -> std::io::Result<u32> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0)?;
        file.write_all(format!("{key}\n").as_bytes())?;
        Ok(2)
    }

    /// Returns the number of charges, and how many of them repeat an earlier key. A real shop would
    /// reject those.
    pub fn count(&self) -> (usize, usize) {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let (all, different) = (text.lines().count(), text.lines().collect::<BTreeSet<_>>().len());
        (all, all - different)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

async fn plan(mut essay: Essay) -> Result<Essay, pleach::BoxError> {
    tokio::time::sleep(STEP).await;
    essay.words = vec![format!("On {}:", essay.topic)];
    Ok(essay)
}

/// Makes the node of one draft. It is paid for once, however often the demo is killed here.
fn draft(
    part: &'static str,
) -> impl Fn(NodeContext, Essay) -> pleach::runtime::BoxFuture<'static, Result<Essay, pleach::BoxError>> {
    move |cx, mut essay| {
        Box::pin(async move {
            let till = cx.extension::<Till>().ok_or("the run has no till: add it with `extension`")?.clone();
            essay.cents += cx.effect("pay", move |key| async move { till.charge(&key) }).await?;
            tokio::time::sleep(STEP).await;
            essay.words.push(part.to_string());
            Ok(essay)
        })
    }
}

fn merge(mut before: Essay, drafts: Vec<Essay>) -> Essay {
    let (words, cents) = (before.words.len(), before.cents);
    for draft in drafts {
        before.words.extend(draft.words.into_iter().skip(words));
        before.cents += draft.cents - cents;
    }
    before
}

async fn polish(mut essay: Essay) -> Result<Essay, pleach::BoxError> {
    tokio::time::sleep(STEP).await;
    essay.score += 30;
    Ok(essay)
}

/// The graph: two steps, a fan-out, and a loop.
pub fn graph() -> Result<CompiledGraph<Essay>, pleach::graph::CompileError> {
    Graph::new("essay")
        .add_node("plan", plan)
        .add_node("opening", draft("an opening"))
        .add_node("middle", draft("a middle"))
        .add_node("end", draft("an end"))
        .add_node("polish", polish)
        .add_parallel_edge("plan", ["opening", "middle", "end"], "polish", merge)
        .add_edge("opening", "polish")
        .add_edge("middle", "polish")
        .add_edge("end", "polish")
        .add_conditional_edge("polish", ["polish", END], |essay: &Essay| if essay.score < 80 { "polish" } else { END })
        .set_entry("plan")
        .compile()
}
