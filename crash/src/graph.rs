//! The driven graph: every feature of a run in one graph. Each node reports to the ledger before it
//! does anything.

use crate::report::fact;
use crate::run_reporter::RunReporter;
use pleach::graph::{FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::store::NewMessage;
use serde::{Deserialize, Serialize};
use std::pin::Pin;
use std::time::Duration;

/// The path of a run through the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Variant {
    /// Through all nodes.
    Full,
    /// To a node that fails after an effect, and then the undos.
    Undone,
    /// To a node that fails without an effect, and then the undos.
    Refused,
    /// A loop that is long enough for pruning.
    Long,
}

impl Variant {
    fn turns(self) -> u32 {
        match self {
            Self::Full => 3,
            Self::Undone | Self::Refused => 1,
            Self::Long => 100,
        }
    }

    /// Whether the run is undone in the end.
    pub fn is_undone(self) -> bool {
        matches!(self, Self::Undone | Self::Refused)
    }

    /// How many records are kept.
    pub fn records_kept(self) -> u64 {
        if self == Self::Long { 20 } else { 10_000 }
    }
}

/// The executed nodes and the keys of their visits; about a kilobyte together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub variant: Variant,
    pub turns: u32,
    pub done: Vec<String>,
    pub keys: Vec<String>,
    pub padding: String,
}

impl State {
    pub fn new(variant: Variant) -> Self {
        Self { variant, turns: 0, done: Vec::new(), keys: Vec::new(), padding: "state ".repeat(16) }
    }

    fn after(mut self, cx: &NodeContext, what: impl Into<String>) -> Self {
        // A long run would outgrow the kilobyte, so it keeps only its last turns.
        if self.variant == Variant::Long && self.keys.len() > 12 {
            self.keys.remove(0);
            self.done.remove(0);
        }
        self.done.push(what.into());
        self.keys.push(cx.idempotency_key());
        self
    }
}

/// The result of an effect: its key, so that its record shows it.
#[derive(Serialize, Deserialize)]
struct Receipt {
    receipt: String,
}

type Worked = Pin<Box<dyn Future<Output = Result<State, String>> + Send>>;

fn reporter(cx: &NodeContext) -> RunReporter {
    let reporter = cx.extension::<RunReporter>().expect("every run is given its reporter").clone();
    reporter.set_run(cx.run_id());
    reporter
}

/// Reports that a node begins.
fn begin(cx: &NodeContext, state: &State) -> RunReporter {
    let reporter = reporter(cx);
    let rests_on = state.keys.iter().map(|key| fact::node(key)).collect();
    reporter.begins(fact::node(&cx.idempotency_key()), rests_on, false);
    reporter.pass("node start");
    reporter
}

/// A node that takes a moment.
fn work(name: &'static str) -> impl Fn(NodeContext, State) -> Worked {
    move |cx, state| {
        Box::pin(async move {
            let reporter = begin(&cx, &state);
            // Long runs do not sleep.
            if state.variant != Variant::Long {
                tokio::time::sleep(Duration::from_micros(reporter.chance(2_000))).await;
            }
            reporter.pass("node end");
            Ok(state.after(&cx, name))
        })
    }
}

/// Needs two attempts.
async fn gather(cx: NodeContext, state: State) -> Result<State, String> {
    let reporter = begin(&cx, &state);
    let before = (1..cx.attempt()).map(|attempt| fact::attempt("gather", attempt)).collect();
    reporter.begins(fact::attempt("gather", cx.attempt()), before, false);
    if cx.attempt() < 2 { Err("not yet".to_string()) } else { Ok(state.after(&cx, "gather")) }
}

/// Posts a signal to its own run, as an effect.
async fn call(cx: NodeContext, state: State) -> Result<State, String> {
    let (reporter, run) = (begin(&cx, &state), cx.run_id().to_string());
    let post = move |key: String| async move {
        reporter.begins(fact::effect(&key), Vec::new(), false);
        reporter.pass("effect before");
        let message = NewMessage::seal(&run, "signal/go", Some(key.clone()), b"7".to_vec());
        reporter.store().send_message(&run, message).await.map_err(|error| error.to_string())?;
        reporter.pass("effect after");
        Ok::<_, String>(Receipt { receipt: key })
    };
    cx.effect("post", post).await?;
    Ok(state.after(&cx, "call"))
}

/// Pays by a repeatable effect and by a `once` effect.
async fn charge(cx: NodeContext, state: State) -> Result<State, String> {
    let reporter = begin(&cx, &state);
    let again = reporter.clone();
    let pay = move |key: String| async move {
        again.begins(fact::effect(&key), Vec::new(), false);
        again.pass("effect before");
        tokio::time::sleep(Duration::from_micros(again.chance(1_000))).await;
        again.pass("effect after");
        Ok::<_, String>(Receipt { receipt: key })
    };
    cx.effect("pay", pay).await?;
    let wire = move |key: String| async move {
        reporter.pass("once before");
        reporter.begins(fact::effect(&key), vec![fact::started("charge", "wire")], true);
        reporter.pass("once after");
        Ok::<_, String>(Receipt { receipt: key })
    };
    cx.effect("wire", wire).once().await?;
    Ok(state.after(&cx, "charge"))
}

async fn hear(cx: NodeContext, state: State) -> Result<State, String> {
    begin(&cx, &state);
    let said: u32 = cx.signal("go").await;
    Ok(state.after(&cx, format!("heard {said}")))
}

async fn ask(cx: NodeContext, state: State) -> Result<State, String> {
    begin(&cx, &state);
    let approved: bool = cx.interrupt("approve", "may I?").await;
    Ok(state.after(&cx, format!("approved {approved}")))
}

async fn rest(cx: NodeContext, state: State) -> Result<State, String> {
    begin(&cx, &state);
    cx.sleep("rest", Duration::from_millis(15)).await;
    Ok(state.after(&cx, "rest"))
}

/// A node that can be undone. The last one fails in variant `Undone`.
fn book(name: &'static str) -> impl Fn(NodeContext, State) -> Worked {
    move |cx, state| {
        Box::pin(async move {
            let reporter = begin(&cx, &state);
            cx.record_undo(name.to_string());
            let book = move |key: String| async move {
                reporter.begins(fact::effect(&key), Vec::new(), false);
                Ok::<_, String>(Receipt { receipt: key })
            };
            cx.effect("book", book).await?;
            if name == "book3" && state.variant == Variant::Undone { Err("full".into()) } else { Ok(state.after(&cx, name)) }
        })
    }
}

/// Cancels a booking by an effect.
async fn undo(cx: NodeContext, name: String) -> Result<(), String> {
    let reporter = reporter(&cx);
    reporter.begins(fact::undo(&name), Vec::new(), false);
    reporter.pass("undo start");
    let again = reporter.clone();
    let cancel = move |key: String| async move {
        again.begins(fact::effect(&key), Vec::new(), false);
        again.pass("effect before");
        tokio::time::sleep(Duration::from_micros(again.chance(1_000))).await;
        again.pass("effect after");
        Ok::<_, String>(Receipt { receipt: key })
    };
    cx.effect("cancel", cancel).await?;
    reporter.pass("undo end");
    Ok(())
}

fn merge(mut before: State, branches: Vec<State>) -> State {
    let from = (before.done.len(), before.keys.len());
    for branch in branches {
        before.done.extend(branch.done.into_iter().skip(from.0));
        before.keys.extend(branch.keys.into_iter().skip(from.1));
    }
    before.done.push("merged".into());
    before
}

fn inner() -> Graph<State> {
    Graph::new("inner")
        .add_node("in1", work("in1"))
        .add_node("left", work("left"))
        .add_node("right", work("right"))
        .add_node("in2", work("in2"))
        .add_parallel_edge("in1", ["left", "right"], "in2", merge)
        .add_edge("left", "in2")
        .add_edge("right", "in2")
        .add_edge("in2", END)
        .set_entry("in1")
}

/// A loop, conditional edges, nested fan-outs, a subgraph with a fan-out, a map with a limit.
fn branching(graph: Graph<State>) -> Result<Graph<State>, pleach::graph::CompileError> {
    let turn = |cx: NodeContext, mut state: State| async move {
        state.turns += 1;
        work("turn")(cx, state).await
    };
    let after_turn = |state: &State| match state.variant {
        variant if state.turns < variant.turns() => "turn",
        Variant::Full => "fork",
        Variant::Undone | Variant::Refused => "book1",
        Variant::Long => "last",
    };
    let items = |state: &State| (0..3).map(|n| State { turns: n, ..state.clone() }).collect();
    Ok(graph
        .set_entry("turn")
        .add_node("turn", turn)
        .add_conditional_edge("turn", ["turn", "fork", "book1", "last"], after_turn)
        .add_node("fork", work("fork"))
        .add_node("a", work("a"))
        .add_node("b", work("b"))
        .add_node("b1", work("b1"))
        .add_node("b2", work("b2"))
        .add_node("b3", work("b3"))
        .add_node("c", work("c"))
        .add_subgraph("sub", inner().compile()?, State::clone, |_, inner| inner)
        .add_node("join", work("join"))
        .add_parallel_edge("fork", ["a", "b", "c"], "join", merge)
        .add_edge("a", "join")
        .add_parallel_edge("b", ["b1", "b2"], "b3", merge)
        .add_edge("b1", "b3")
        .add_edge("b2", "b3")
        .add_edge("b3", "join")
        .add_edge("c", "sub")
        .add_edge("sub", "join")
        .map("join", items, "item", "gather", FanOut::merge(merge).limit(2))
        .add_node("item", work("item"))
        .add_node("item2", work("item2"))
        .add_edge("item", "item2")
        .add_edge("item2", "gather"))
}

/// The whole graph: after the branches a retry, effects, a signal, a question, a sleep, and
/// undoable nodes.
pub fn everything() -> Result<CompiledGraph<State>, pleach::graph::CompileError> {
    let backoff = Duration::from_millis(5);
    let last = |cx: NodeContext, state: State| async move {
        let refuses = state.variant == Variant::Refused;
        work("last")(cx, state).await.and_then(|state| if refuses { Err("refused".into()) } else { Ok(state) })
    };
    branching(Graph::new("everything"))?
        .add_node("gather", gather)
        .policy("gather", Policy::new().retry(Retry::times(3).backoff(backoff, backoff)))
        .add_edge("gather", "call")
        .add_node("call", call)
        .policy("call", Policy::new().retry(Retry::times(20).backoff(backoff, backoff * 10)))
        .add_edge("call", "charge")
        .add_node("charge", charge)
        // If the outcome of the wire is unknown, `settle` runs instead.
        .policy("charge", Policy::new().fallback("settle"))
        .add_edge("charge", "hear")
        .add_node("settle", work("settle"))
        .add_edge("settle", "hear")
        .add_node("hear", hear)
        .add_edge("hear", "ask")
        .add_node("ask", ask)
        .add_edge("ask", "rest")
        .add_node("rest", rest)
        .add_edge("rest", "book1")
        .add_node("book1", book("book1"))
        .compensate("book1", undo)
        .add_edge("book1", "book2")
        .add_node("book2", book("book2"))
        .compensate("book2", undo)
        .add_edge("book2", "book3")
        .add_node("book3", book("book3"))
        .compensate("book3", undo)
        .add_edge("book3", "last")
        .add_node("last", last)
        .add_edge("last", END)
        .compile()
}
