//! Tests of the process source against real systems.

mod history;
mod home;
mod lists;
mod proxy;
mod steer;
mod test_text;

use super::ProcessSource;
use crate::failure::Failure;
use crate::source::Source;
use crate::view::View;
use pleach::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;

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

/// Asks until the answer is as wanted, and returns it.
async fn until(source: &ProcessSource, name: &str, parameters: Value, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let limit = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            match ask(source, name, parameters.clone()).await {
                Ok(answer) if is_wanted(&answer) => return answer,
                _ => tokio::task::yield_now().await,
            }
        }
    });
    limit.await.unwrap_or_else(|_| panic!("{name} {parameters} never came as wanted"))
}

/// Returns how many clients of the inspection protocol a system serves over memory.
fn clients(system: &ActorSystem) -> usize {
    let query = pleach::inspect::SnapshotQuery::at("/system".parse().unwrap());
    let members = system.snapshot(&query).unwrap().members;
    let is_client = |path: &str| path.starts_with("/system/inspect-client") && path.matches('/').count() == 2;
    members.iter().filter(|member| is_client(&member.path.to_string())).count()
}

/// An actor whose handler waits at a gate.
struct Bank(Arc<Semaphore>);

impl Actor for Bank {
    type Msg = u32;
    type Error = pleach::BoxError;

    async fn handle(&mut self, _: u32, _: &mut Context<Self>) -> Result<(), pleach::BoxError> {
        drop(self.0.acquire().await);
        Ok(())
    }
}

/// Starts a bank that handles a message until the gate is closed.
async fn busy_bank(system: &ActorSystem) -> (ActorRef<u32>, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let bank = system.spawn_started("bank", Props::new(move || Bank(Arc::clone(&held)))).await.unwrap();
    bank.tell(1).unwrap();
    while bank.any().info().handling_for().is_none() {
        tokio::task::yield_now().await;
    }
    (bank, gate)
}
