//! What the demo's runs do: an essay is planned, drafted in three branches at once, and polished until it is good. Each draft costs something, which
//! is charged outside, in a file that outlives the demo.

use pleach::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// How long a step takes, so that there is something to interrupt.
const STEP: Duration = Duration::from_millis(150);

/// The state of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Essay {
    pub topic: String,
    pub words: Vec<String>,
    pub score: u32,
    pub cents: u32,
}

/// What was charged: a file with a line for each charge, which no restart of the demo takes back.
#[derive(Clone)]
pub struct Till(PathBuf);

impl Till {
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Charges for what is known by `key`. A line is one write, so a kill leaves it whole or not at all.
    fn charge(&self, key: &str) -> std::io::Result<u32> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0)?;
        file.write_all(format!("{key}\n").as_bytes())?;
        Ok(2)
    }

    /// How many charges there were, and how many of them under a key that had been charged before: a shop would have refused those.
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

/// One of three drafts. It is paid for once, however often the demo is killed here.
fn draft(
    part: &'static str,
) -> impl Fn(NodeContext, Essay) -> pleach::runtime::BoxFuture<'static, Result<Essay, pleach::BoxError>> {
    move |cx, mut essay| {
        Box::pin(async move {
            let till = cx.extension::<Till>().ok_or("there is no till")?.clone();
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
