//! Bulk actions on real runs, in virtual time.

use crate::durable::StoreSource;
use crate::orders::Orders;
use crate::redact::Redaction;
use crate::report::NamedStore;
use crate::settings::Settings;
use crate::sources::Sources;
use pleach::durable::RunRemote;
use pleach::graph::END;
use pleach::prelude::{CompiledGraph, Graph};
use pleach::runtime::TokioRuntime;
use pleach::store::{MemoryStore, RunStatus, Store};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A console with one store, whose clock is the virtual one.
struct Desk {
    orders: Orders,
    store: MemoryStore,
}

impl Desk {
    fn new() -> Self {
        let store = MemoryStore::on(TokioRuntime::current().unwrap());
        let source = Arc::new(StoreSource::new("s0", NamedStore::new(&store, "runs.db")));
        let sources = Sources { processes: Vec::new(), stores: vec![source] };
        let settings = Settings { allows_actions: true, user: "ada".to_string(), ..Settings::default() };
        Self { orders: Orders::new(sources, Redaction::new().into(), &settings), store }
    }

    async fn ask(&self, body: Value) -> Result<Value, crate::failure::Failure> {
        self.orders.bulk(serde_json::from_value(body).unwrap()).await
    }

    async fn plan(&self, order: &Value) -> Value {
        let mut order = order.clone();
        order["is_plan"] = json!(true);
        self.ask(order).await.unwrap()
    }

    async fn start(&self, order: &Value, plan: &Value, per_second: u32) -> String {
        let mut order = order.clone();
        (order["is_plan"], order["plan"], order["per_second"]) = (json!(false), plan["plan"].clone(), json!(per_second));
        order["expected"] = plan["runs"]["count"].clone();
        self.ask(order).await.unwrap()["bulk"].as_str().unwrap().to_string()
    }

    /// Waits until a bulk action has ended, and returns its view.
    async fn ended(&self, bulk: &str) -> Value {
        loop {
            let view = self.orders.bulks.view(bulk).unwrap();
            if view["is_ended"] == true {
                return view;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn status(&self, run: &str) -> RunStatus {
        self.store.head(run).await.unwrap().status
    }
}

fn failing(name: &str) -> CompiledGraph<u64> {
    let fail = |_: u64| async { Err::<u64, _>("no truck".to_string()) };
    Graph::new(name).add_node("ship", fail).add_edge("ship", END).set_entry("ship").compile().unwrap()
}

async fn fail(desk: &Desk, graph: &str, id: &str) {
    failing(graph).run(1).id(id).checkpoint(&desk.store).await.unwrap_err();
}

fn retry(graph: &str) -> Value {
    json!({ "action": { "kind": "retry", "store": "s0" }, "filters": { "failed": true, "graph": graph }, "reason": "repaired" })
}

#[tokio::test(start_paused = true)]
async fn k4_bulk_retries_what_was_planned_and_nothing_else() {
    let desk = Desk::new();
    for number in 0..20 {
        fail(&desk, "order", &format!("order-{number:02}")).await;
        fail(&desk, "other", &format!("other-{number:02}")).await;
    }
    let plan = desk.plan(&retry("order")).await;
    assert_eq!((&plan["runs"], &plan["title"]), (&json!({ "count": 20, "is_cut": false }), &json!("Retry 20 runs")));
    assert_eq!(plan["samples"].as_array().unwrap().len(), 3);
    assert_eq!(plan["samples"][0]["title"], "Retry run order-19");
    assert!(plan["samples"][0]["will"][0].as_str().is_some_and(|will| will.contains("ship")), "{plan}");
    assert_eq!((&plan["is_destructive"], &plan["is_allowed"]), (&json!(false), &json!(true)));
    assert_eq!(desk.status("order-00").await, RunStatus::Failed, "a plan changes nothing");
    // After the plan: one run is retried by somebody, one is deleted, and one more fails.
    RunRemote::new(&desk.store, "order-07").retry().await.unwrap();
    desk.store.delete("order-08").await.unwrap();
    fail(&desk, "order", "late").await;
    let started = Instant::now();
    let bulk = desk.start(&retry("order"), &plan, 5).await;
    let view = desk.ended(&bulk).await;
    assert!((3_700..4_400).contains(&started.elapsed().as_millis()), "{:?} at 5 a second", started.elapsed());
    assert_eq!((&view["done"], &view["failed"], &view["left"]), (&json!(18), &json!(2), &json!(0)));
    let result = |run: &str| view["results"].as_array().unwrap().iter().find(|result| result["run"] == run).unwrap().clone();
    assert_eq!(result("order-00")["outcome"], "done");
    assert_eq!(
        result("order-07"),
        json!({ "run": "order-07", "outcome": "refused", "text": "the run is running, not failed" })
    );
    assert_eq!(result("order-08")["outcome"], "refused");
    for (run, status) in [
        ("order-00", RunStatus::Running),
        ("late", RunStatus::Failed),
        ("other-00", RunStatus::Failed),
        ("order-19", RunStatus::Running),
    ] {
        assert_eq!(desk.status(run).await, status, "{run}");
    }
    // The record has the start and each run.
    let entries = serde_json::to_value(desk.orders.log.page(None, Some(200))).unwrap();
    let entries = entries.as_array().unwrap();
    assert_eq!(entries.len(), 21);
    assert_eq!(
        (&entries[20]["title"], &entries[20]["text"]),
        (&json!("Retry 20 runs"), &json!("started with 5 runs a second"))
    );
    assert_eq!((&entries[19]["subject"], &entries[19]["reason"]), (&json!("order-19"), &json!("repaired")));
    assert!(entries.iter().all(|entry| entry["who"] == "ada"));
}

#[tokio::test(start_paused = true)]
async fn k4_bulk_leaves_runs_alone_that_do_not_match_any_more() {
    let desk = Desk::new();
    for run in ["retried", "deleted", "replaced", "same"] {
        fail(&desk, "order", run).await;
    }
    let mut order = retry("order");
    order["action"]["kind"] = json!("delete");
    let plan = desk.plan(&order).await;
    // After the plan a driver continues one run, and another run takes the id of one.
    RunRemote::new(&desk.store, "retried").retry().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    for run in ["deleted", "replaced"] {
        desk.store.delete(run).await.unwrap();
    }
    fail(&desk, "order", "replaced").await;
    let view = desk.ended(&desk.start(&order, &plan, 100).await).await;
    let result = |run: &str| view["results"].as_array().unwrap().iter().find(|result| result["run"] == run).unwrap().clone();
    let refused = |run: &str, text: &str| json!({ "run": run, "outcome": "refused", "text": text });
    let text = "run retried is running now, and does not match the filters any more";
    assert_eq!(result("retried"), refused("retried", text));
    assert_eq!(result("replaced"), refused("replaced", "run replaced was replaced since it was planned"));
    assert_eq!(result("deleted")["outcome"], "refused");
    assert_eq!((&view["done"], &view["failed"]), (&json!(1), &json!(3)));
    assert_eq!(desk.status("retried").await, RunStatus::Running, "it was not deleted");
    assert!(desk.store.head("same").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn k4_two_bulks_at_once_carry_out_each_run_once() {
    let desk = Desk::new();
    for number in 0..40 {
        fail(&desk, "order", &format!("order-{number:02}")).await;
    }
    let plans = [desk.plan(&retry("order")).await, desk.plan(&retry("order")).await];
    let bulks = [desk.start(&retry("order"), &plans[0], 100).await, desk.start(&retry("order"), &plans[1], 100).await];
    let (one, other) = tokio::join!(desk.ended(&bulks[0]), desk.ended(&bulks[1]));
    let sum = |field: &str| one[field].as_u64().unwrap() + other[field].as_u64().unwrap();
    assert_eq!((sum("done"), sum("failed"), sum("left")), (40, 40, 0), "each run is retried once");
    for number in 0..40 {
        let info = desk.store.head(&format!("order-{number:02}")).await.unwrap();
        assert_eq!(info.status, RunStatus::Running);
    }
    assert_eq!((one["results"].as_array().unwrap().len(), other["results"].as_array().unwrap().len()), (40, 40));
}

#[tokio::test(start_paused = true)]
async fn k4_bulks_keep_a_bounded_number_of_results_and_of_bulks() {
    let desk = Desk::new();
    for number in 0..300 {
        fail(&desk, "order", &format!("order-{number:03}")).await;
    }
    let plan = desk.plan(&retry("order")).await;
    let bulk = desk.start(&retry("order"), &plan, 100).await;
    let view = desk.ended(&bulk).await;
    assert_eq!((&view["done"], view["results"].as_array().unwrap().len()), (&json!(300), 200));
    assert_eq!(view["results"][0]["run"], "order-000", "the newest first");
    // A bulk that has ended is not stopped any more.
    desk.ask(json!({ "stop": bulk })).await.unwrap();
    assert_eq!(desk.orders.bulks.view(&bulk).unwrap()["is_stopped"], false);
    for _ in 0..20 {
        fail(&desk, "again", "again").await;
        let plan = desk.plan(&retry("again")).await;
        let bulk = desk.start(&retry("again"), &plan, 100).await;
        desk.ended(&bulk).await;
        desk.store.delete("again").await.unwrap();
    }
    assert_eq!(desk.orders.bulks.view(&bulk).unwrap_err().code, "not_found", "the oldest is forgotten");
}

#[tokio::test(start_paused = true)]
async fn k4_a_fifth_running_bulk_is_refused_and_a_stop_is_recorded() {
    let desk = Desk::new();
    for number in 0..10 {
        fail(&desk, "order", &format!("order-{number}")).await;
    }
    let mut bulks = Vec::new();
    for _ in 0..4 {
        let plan = desk.plan(&retry("order")).await;
        bulks.push(desk.start(&retry("order"), &plan, 1).await);
    }
    let plan = desk.plan(&retry("order")).await;
    let mut fifth = retry("order");
    (fifth["is_plan"], fifth["plan"], fifth["expected"]) = (json!(false), plan["plan"].clone(), plan["runs"]["count"].clone());
    let refused = desk.ask(fifth).await.unwrap_err();
    assert_eq!((refused.code.as_str(), refused.text.as_str()), ("refused", "4 bulk actions are running"));
    let newest = || serde_json::to_value(desk.orders.log.page(None, Some(1))).unwrap()[0].clone();
    assert_eq!((&newest()["outcome"], &newest()["text"]), (&json!("refused"), &json!("4 bulk actions are running")));
    desk.ask(json!({ "stop": bulks[0] })).await.unwrap();
    let stopped = newest();
    assert_eq!(stopped["title"], "Stop: Retry 10 runs");
    assert!(stopped["text"].as_str().is_some_and(|text| text.starts_with("stopped; ")), "{stopped}");
    let view = desk.ended(&bulks[0]).await;
    assert!(view["is_stopped"] == true && view["left"].as_u64().is_some_and(|left| left > 0), "{view}");
}
