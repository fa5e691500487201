//! Links the runs in the tree of a process to the stores of the console: one tree with runs in it.
//!
//! A member of the kind `run` has the id of its run as its name. It is linked if a store of this
//! console has a run with this id.

use crate::source::Source;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long the stores are asked for the runs of one answer. A link that is not found in time is
/// missing in this answer.
const FOUND_WITHIN: Duration = Duration::from_secs(1);

/// Adds `run` to the members of an answer that drive a run of one of these stores.
pub(crate) async fn link(stores: &[Arc<dyn Source>], answer: &mut Value) {
    let linking = async {
        for member in members(answer) {
            let Some(run) = run_of(member) else { continue };
            for store in stores {
                // A store that cannot be asked says so in its own views.
                if matches!(store.has_run(&run).await, Ok(true)) {
                    member.insert("run".to_string(), json!({ "store": store.key(), "id": run }));
                    break;
                }
            }
        }
    };
    drop(timeout(FOUND_WITHIN, linking).await);
}

/// Returns the members of a tree, a sorted list, a list of members, or the view of one.
fn members(answer: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let fields = answer.as_object_mut().into_iter().flatten();
    let listed = fields.flat_map(|(name, value)| match (name.as_str(), value) {
        ("rows" | "members", Value::Array(list)) => list.iter_mut().collect(),
        ("member", member) => vec![member],
        _ => Vec::new(),
    });
    listed.filter_map(|entry| match entry.get("member").is_some() {
        true => entry.get_mut("member").and_then(Value::as_object_mut),
        false => entry.as_object_mut(),
    })
}

/// Returns the id of the run that a member drives.
fn run_of(member: &Map<String, Value>) -> Option<String> {
    let is_run = member.get("kind").is_some_and(|kind| kind == "run");
    let path = member.get("path").filter(|_| is_run)?.as_str()?;
    path.rsplit('/').next().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use crate::durable::StoreSource;
    use crate::process::ProcessSource;
    use crate::report::NamedStore;
    use crate::sources::Sources;
    use crate::view::View;
    use pleach::prelude::*;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    async fn ask(sources: &Sources, view: Value) -> Value {
        let view: View = serde_json::from_value(view).expect("a view");
        sources.view(&view).await.unwrap()
    }

    #[tokio::test]
    async fn k3_runs_in_the_tree_lead_to_their_store() {
        let (system, store) = (ActorSystem::new("shop").unwrap(), MemoryStore::new());
        let (gate, scope) = (Arc::new(Semaphore::new(0)), system.scope("work").unwrap());
        let held = Arc::clone(&gate);
        let wait = move |state: u32| {
            let gate = Arc::clone(&held);
            async move { gate.acquire().await.map(|_| state) }
        };
        let graph = Graph::<u32>::new("g").add_node("n", wait).add_edge("n", END).set_entry("n").compile().unwrap();
        let stored = tokio::spawn(graph.run(1).id("order-7").checkpoint(&store).in_scope(&scope).into_future());
        let _plain = tokio::spawn(graph.run(1).id("plain").in_scope(&scope).into_future());
        let sources = Sources {
            processes: vec![Arc::new(ProcessSource::of_system("p0", &system, []))],
            stores: vec![Arc::new(StoreSource::new("s0", NamedStore::of(&store)))],
        };
        let tree = json!({ "view": "tree", "process": "p0", "path": "/user/work", "open": ["/user/work"] });
        let rows = loop {
            let rows = ask(&sources, tree.clone()).await["rows"].take();
            if rows[2].is_object() && rows[1]["member"]["run"].is_object() | rows[2]["member"]["run"].is_object() {
                break rows;
            }
            tokio::task::yield_now().await;
        };
        let linked: Vec<_> =
            rows.as_array().unwrap().iter().map(|row| (&row["member"]["kind"], &row["member"]["run"])).collect();
        let (run, link) = (json!("run"), json!({ "store": "s0", "id": "order-7" }));
        assert!(linked.contains(&(&run, &link)) && linked.contains(&(&run, &Value::Null)), "{linked:?}");
        let member = ask(&sources, json!({ "view": "member", "process": "p0", "path": "/user/work/order-7" })).await;
        assert_eq!(member["member"]["run"], link);
        gate.add_permits(2);
        assert_eq!(stored.await.unwrap().unwrap(), 1);
    }
}
