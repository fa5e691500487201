//! Tests of the process source against real systems.

mod lists;

use super::ProcessSource;
use crate::failure::Failure;
use crate::source::Source;
use crate::view::View;
use pleach::prelude::*;
use serde_json::{Value, json};

/// Parses a view as the page sends it.
fn parsed(view: Value) -> View {
    serde_json::from_value(view).expect("a view of docs/console-api.md")
}

/// Asks for a view of the process `p0`.
async fn ask(source: &ProcessSource, name: &str, parameters: Value) -> Result<Value, Failure> {
    let mut view = json!({ "view": name, "process": "p0" });
    let fields = parameters.as_object().cloned().unwrap_or_default();
    view.as_object_mut().expect("an object").extend(fields);
    source.view(&parsed(view)).await
}

/// A system with a source that allows nothing.
fn shop() -> (ActorSystem, ProcessSource) {
    let system = ActorSystem::new("shop").unwrap();
    let source = ProcessSource::of_system("p0", &system, []);
    (system, source)
}

/// An actor that fails for 0.
fn till() -> Props<impl Actor<Msg = u32>> {
    Props::from_fn(|| (), |(), paid: u32| if paid > 0 { Ok(()) } else { Err("nothing paid") })
}

/// Returns the paths of listed rows or members.
fn paths(list: &Value) -> Vec<String> {
    let path = |entry: &Value| entry["member"]["path"].as_str().or(entry["path"].as_str()).unwrap_or("-").to_string();
    list.as_array().expect("a list").iter().map(path).collect()
}
