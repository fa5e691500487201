//! The view `test` of a run: a test in Rust that continues the run at a record, in the simulator.
//!
//! `console/tests/generated` holds one of them as a file that is compiled and run.
//!
//! The state leaves this file apart from the text, so that it is redacted as JSON, key by key. Then
//! [`fill`] puts it into the text.

use super::StoreSource;
use crate::failure::Failure;
use crate::redact::MARK;
use crate::report::text::indented;
use crate::rust_text::{comment, literal, name, raw_json};
use crate::view::TestFrom;
use pleach::durable::{Checkpoint, RewindPreview, RewindTo};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The largest state in bytes that a test contains.
const STATE_BYTES_MAX: usize = 32 << 10;

/// Stands in the text for the state.
const PLACE: &str = "STATE_OF_THE_RUN";

/// The most waits that the notes name.
const WAITS_MAX: usize = 5;

pub(super) async fn view(source: &StoreSource, asked: &TestFrom) -> Result<Value, Failure> {
    let missing = || Failure::new("bad_request", "the id of the run is missing");
    let run = asked.run.as_deref().ok_or_else(missing)?;
    let info = source.store().store().head(run).await?;
    let record = asked.record.unwrap_or(info.head);
    let remote = source.remote(run);
    let page = remote.history(record, 1).await?;
    let found = page.checkpoints.first().filter(|found| found.sequence == record);
    let at =
        found.ok_or_else(|| Failure::new("not_found", format_args!("run {run} has no record {record}, or it was pruned")))?;
    let preview = match remote.preview_fork(RewindTo::Record(record)).await.map_err(Failure::from) {
        Ok(preview) => Some(preview),
        // A run that ended here can still be tried from the node of the record.
        Err(failure) if failure.code == "refused" && !at.node.is_empty() => None,
        Err(failure) => return Err(failure),
    };
    let start = Start { run, graph: &info.graph, record, at, node: node(run, record, at, preview.as_ref())? };
    let state = remote.state_at(record).await?;
    Ok(start.answer(&state, preview.as_ref()))
}

/// Puts the redacted state into the text of a test.
pub(crate) fn fill(answer: &mut Value) {
    let Some(fields) = answer.as_object_mut() else { return };
    let Some(Value::String(state)) = fields.remove("state") else { return };
    if state.contains(MARK)
        && let Some(notes) = fields.get_mut("notes").and_then(Value::as_array_mut)
    {
        notes.push(format!("Secrets of the state are hidden: replace {MARK}.").into());
    }
    if let Some(Value::String(text)) = fields.get_mut("text") {
        *text = text.replacen(PLACE, &raw_json(&indented(&state)), 1);
    }
}

/// Returns the one node at which the run continues.
fn node(run: &str, record: u64, at: &Checkpoint, preview: Option<&RewindPreview>) -> Result<String, Failure> {
    let Some(preview) = preview else { return Ok(at.node.clone()) };
    if preview.is_undoing {
        return Err(Failure::new("not_possible", format_args!("run {run} is being undone at record {record}"))
            .advice("choose a record before its failure"));
    }
    match &preview.nodes[..] {
        [node] => Ok(node.clone()),
        nodes => {
            let text = format!("run {run} continues at {} nodes after record {record}: a test starts at one", nodes.len());
            Err(Failure::new("not_possible", text).advice("choose a record before its branches"))
        }
    }
}

/// Where the test starts.
struct Start<'a> {
    run: &'a str,
    graph: &'a str,
    record: u64,
    at: &'a Checkpoint,
    node: String,
}

impl Start<'_> {
    fn answer(&self, state: &str, preview: Option<&RewindPreview>) -> Value {
        if state.len() > STATE_BYTES_MAX {
            let file = format!("{}-{}.json", name(self.run), self.record);
            let text = self.text().replacen(PLACE, &format!("include_str!({})", literal(&file)), 1);
            let mut notes = self.notes(preview);
            notes.push(format!("The state has {} bytes: download it, and save it as {file} beside the test.", state.len()));
            return json!({ "text": text, "notes": notes });
        }
        json!({ "text": self.text(), "notes": self.notes(preview), "state": state })
    }

    fn text(&self) -> String {
        let Self { run, graph, record, at, node } = self;
        let mut text = format!(
            "//! Continues run {} of graph {} at record {record}: at node {}.\n",
            comment(run),
            comment(graph),
            comment(node)
        );
        if let Some(failure) = &at.failure {
            let _ = write!(text, "//!\n//! Node {} failed there: {}\n", comment(&at.node), comment(&failure.reason));
        }
        text.push_str("\nuse crate::{State, graph};\nuse pleach::prelude::*;\nuse pleach::sim::explore;\n");
        let _ = write!(text, "\n/// The state of the run at record {record}.\nconst STATE: &str = {PLACE};\n");
        let _ = write!(text, "\n#[test]\nfn {}() {{\n", name(&format!("run {run} continues at record {record}")));
        text.push_str("    explore(0..100, |sim| {\n");
        text.push_str("        let state: State = serde_json::from_str(STATE).expect(\"the state type of the graph\");\n");
        text.push_str("        let store = MemoryStore::on(sim.runtime());\n");
        let _ = writeln!(text, "        let run = graph().run(state).start_at({}).id({});", literal(node), literal(run));
        text.push_str("        let ended = sim.run(run.checkpoint(&store).runtime(sim.runtime()).into_future());\n");
        text.push_str("        assert!(ended.is_ok(), \"seed {}: {:?}\", sim.seed(), ended.err());\n    });\n}\n");
        text
    }

    fn notes(&self, preview: Option<&RewindPreview>) -> Vec<String> {
        let mut notes = vec![
            "`graph` builds the graph as the program does, and `State` is its state type.".to_string(),
            "While the run fails, the test fails and names the seed; PLEACH_SEED repeats that one.".to_string(),
        ];
        let Some(preview) = preview else {
            notes.push(format!("The run ended at this record, so the test starts node {} again.", self.node));
            return notes;
        };
        let effects = preview.effects_again.len() + preview.effects_kept.len() + preview.effects_unknown.len();
        if effects > 0 {
            notes.push(format!(
                "The log has {effects} effects of nodes that run again: the test calls them, so give the graph stand-ins."
            ));
        }
        let keys: Vec<&str> =
            preview.waits_again.iter().chain(&preview.waits_kept).map(|wait| &*wait.key).take(WAITS_MAX).collect();
        if !keys.is_empty() {
            let keys = keys.join(", ");
            notes.push(format!("The run waits for {keys}: send it with RunRemote and resume, or the test ends with Paused."));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Redaction;
    use crate::report::NamedStore;
    use crate::rust_text::assert_sample;
    use crate::source::Source as _;
    use crate::view::View;
    use pleach::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct State {
        amount: u64,
        card: String,
    }

    /// A shop whose charge fails, with one run that has failed.
    async fn failed(card: &str) -> StoreSource {
        let graph = Graph::<State>::new("shop")
            .add_node("reserve", |state: State| async move { Ok::<_, NodeError>(state) })
            .add_node("charge", |_: State| async move { Err::<State, _>("card declined") })
            .add_edge("reserve", "charge")
            .add_edge("charge", END)
            .set_entry("reserve")
            .compile()
            .unwrap();
        let store = MemoryStore::new();
        let state = State { amount: u64::MAX, card: card.to_string() };
        graph.run(state).id("order-7").checkpoint(&store).await.unwrap_err();
        StoreSource::new("s0", NamedStore::of(&store))
    }

    async fn asked(source: &StoreSource, record: u64) -> Result<Value, Failure> {
        let from =
            TestFrom { store: Some("s0".into()), run: Some("order-7".into()), record: Some(record), ..TestFrom::default() };
        source.view(&View::Test(from)).await
    }

    #[tokio::test]
    async fn k4_test_of_a_run_is_the_sample_that_is_compiled() {
        let mut test = asked(&failed("visa").await, 2).await.unwrap();
        fill(&mut test);
        assert_sample("run.rs", test["text"].as_str().unwrap());
        assert!(test.get("state").is_none());
    }

    #[tokio::test]
    async fn k4_test_of_a_failed_run_starts_at_the_node_that_failed() {
        let source = failed("visa").await;
        let head = source.store().store().head("order-7").await.unwrap().head;
        let mut test = asked(&source, head).await.unwrap();
        fill(&mut test);
        let text = test["text"].as_str().unwrap();
        assert!(text.contains(".start_at(\"charge\")") && text.contains("18446744073709551615"), "{text}");
        assert!(text.contains("//! Node charge failed there: card declined"), "{text}");
        assert_eq!(asked(&source, 99).await.unwrap_err().code, "not_found");
    }

    #[tokio::test]
    async fn k4_test_of_a_finished_run_starts_its_last_node_again() {
        let pass = |state: State| async move { Ok::<_, NodeError>(state) };
        let graph = Graph::<State>::new("shop").add_node("reserve", pass).add_edge("reserve", END).set_entry("reserve");
        let store = MemoryStore::new();
        let state = State { amount: 1, card: "visa".to_string() };
        graph.compile().unwrap().run(state).id("order-7").checkpoint(&store).await.unwrap();
        let head = store.head("order-7").await.unwrap().head;
        let test = asked(&StoreSource::new("s0", NamedStore::of(&store)), head).await.unwrap();
        assert!(test["text"].as_str().unwrap().contains(".start_at(\"reserve\")"), "{test:#}");
        assert_eq!(test["notes"][2], "The run ended at this record, so the test starts node reserve again.");
    }

    #[tokio::test]
    async fn k7_state_of_a_test_is_redacted_as_json() {
        let secret = r#"{"password":{"a":["hunter2"]}}"#;
        let mut test = asked(&failed(secret).await, 2).await.unwrap();
        Redaction::new().value(&mut test);
        fill(&mut test);
        let text = test.to_string();
        assert!(!text.contains("hunter2") && text.contains(MARK), "{text}");
        assert!(text.contains("Secrets of the state are hidden"));
    }
}
