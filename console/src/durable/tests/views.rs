//! The views that no other file tests: `graph`, `deploy`, `workers`, and what every view has.

use super::fixture::{Fixture, on_all_stores, stop};
use super::graphs::{self, Done, Order};
use pleach::store::RunStatus;
use serde_json::{Value, json};

on_all_stores!(
    k3_drawings_show_where_a_run_is,
    k3_drawings_without_an_export_show_what_the_records_show,
    k3_deploy_check_names_the_runs_that_a_program_would_not_serve,
    k3_timeline_and_states_follow_a_run,
);

fn exports(graphs: &[&pleach::durable::GraphExport]) -> String {
    serde_json::to_string(graphs).unwrap()
}

fn nodes(drawing: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> =
        drawing["layout"]["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

fn edges(drawing: &Value) -> Vec<String> {
    let edge = |edge: &Value| format!("{} {}", edge["from"].as_str().unwrap(), edge["to"].as_str().unwrap());
    let mut all: Vec<String> = drawing["layout"]["edges"].as_array().unwrap().iter().map(edge).collect();
    all.sort_unstable();
    all
}

async fn k3_drawings_show_where_a_run_is(fixture: Fixture) {
    let graph = graphs::parcels();
    let export = exports(&[&graph.export()]);
    graph.run(vec![1, 2, 3]).id("p").checkpoint(&fixture.store).await.unwrap_err();
    let draw = async || fixture.view(json!({ "view": "graph", "run": "p", "graphs": export })).await;
    let drawing = draw().await;
    assert_eq!((&drawing["is_observed"], &drawing["note"]), (&json!(false), &Value::Null));
    assert_eq!(drawing["marks"]["pack"], json!({ "visited": 0, "current": 0, "waiting": 3, "failed": 0 }));
    assert_eq!(drawing["marks"]["begin"], json!({ "visited": 1, "current": 0, "waiting": 0, "failed": 0 }), "an open fan-out");
    assert!(nodes(&drawing).contains(&"pack") && nodes(&drawing).len() == 5, "one node for all branches: {drawing}");
    // One branch goes on and waits at the join.
    let worker = fixture.worker().graph(&graph).start().unwrap();
    fixture.order(json!({ "kind": "signal", "run": "p", "name": "packed", "value": "\"x\"" })).await;
    let drawing = draw().await;
    assert_eq!((&drawing["marks"]["pack"]["waiting"], &drawing["marks"]["pack"]["visited"]), (&json!(2), &json!(1)));
    for _ in 0..2 {
        fixture.order(json!({ "kind": "signal", "run": "p", "name": "packed", "value": "\"x\"" })).await;
    }
    fixture.until("p", |info| info.status == RunStatus::Finished).await;
    let drawing = draw().await;
    let busy = |mark: &Value| mark["current"] != 0 || mark["waiting"] != 0 || mark["failed"] != 0;
    assert!(!drawing["marks"].as_object().unwrap().values().any(busy), "{}", drawing["marks"]);
    assert_eq!((&drawing["marks"]["pack"]["visited"], &drawing["marks"]["send"]["visited"]), (&json!(3), &json!(1)));
    stop(worker).await;
    // A failed run, and a drawing of another version.
    let graph = graphs::order(&Done::default());
    graph.run(Order::to("nowhere")).id("o").checkpoint(&fixture.store).await.unwrap_err();
    graph.resume("o").resume_with("approve", &true).checkpoint(&fixture.store).await.unwrap_err();
    let other = exports(&[&graphs::parcels().export()]).replace("\"parcels\"", "\"order\"");
    let drawing = fixture.view(json!({ "view": "graph", "run": "o", "graphs": other })).await;
    assert!(drawing["note"].as_str().is_some_and(|note| note.starts_with("this is another version of the graph")));
    assert_eq!(drawing["marks"]["ship"]["failed"], 1);
    let wrong = fixture.try_view(json!({ "view": "graph", "run": "o", "graphs": "{}" })).await.unwrap_err();
    assert_eq!(wrong.code, "bad_request");
    // An upload does not change the drawing that others see of a known fingerprint.
    let fingerprint = graphs::signal().export().graph.fingerprint;
    graphs::signal().run(Order::to("Ghent")).id("s").checkpoint(&fixture.store).await.unwrap_err();
    let parcels = graphs::parcels().export();
    let forged = exports(&[&parcels]).replace("\"parcels\"", "\"signal\"").replace(&parcels.graph.fingerprint, &fingerprint);
    fixture.view(json!({ "view": "graph", "run": "s", "graphs": forged })).await;
    let honest = exports(&[&graphs::signal().export()]);
    let drawing = fixture.view(json!({ "view": "graph", "run": "s", "graphs": honest })).await;
    assert!(nodes(&drawing).contains(&"wait"), "{:?}", nodes(&drawing));
}

async fn k3_drawings_without_an_export_show_what_the_records_show(fixture: Fixture) {
    let graph = graphs::order(&Done::default());
    graph.run(Order::to("Ghent")).id("o").checkpoint(&fixture.store).await.unwrap_err();
    let drawing = fixture.view(json!({ "view": "graph", "run": "o" })).await;
    assert!(drawing["is_observed"] == true && drawing["note"].is_string());
    let inner = |drawing: &Value| -> Vec<String> {
        nodes(drawing)
            .into_iter()
            .filter(|node| !node.starts_with("__") && *node != "start" && *node != "end")
            .map(String::from)
            .collect()
    };
    assert_eq!(inner(&drawing), ["approve", "pay"]);
    assert!(!drawing["layout"]["nodes"].as_array().unwrap().iter().any(|node| node["kind"] == "end"), "no record leads there");
    assert_eq!(drawing["marks"]["approve"]["waiting"], 1);
    graph.resume("o").resume_with("approve", &true).checkpoint(&fixture.store).await.unwrap();
    let drawing = fixture.view(json!({ "view": "graph", "run": "o" })).await;
    assert_eq!(inner(&drawing), ["approve", "pay", "ship"]);
    assert!(drawing["layout"]["nodes"].as_array().unwrap().iter().any(|node| node["kind"] == "end"));
    for edge in ["pay approve", "approve ship"] {
        assert!(edges(&drawing).contains(&edge.to_string()), "{edge}: {:?}", edges(&drawing));
    }
    // Joins are edges.
    let graph = graphs::parcels();
    graph.run(vec![1, 2]).id("p").checkpoint(&fixture.store).await.unwrap_err();
    for _ in 0..2 {
        drop(graph.resume("p").checkpoint(&fixture.store).await);
        fixture.remote("p").signal("packed", "x").await.unwrap();
    }
    graph.resume("p").checkpoint(&fixture.store).await.unwrap();
    let drawing = fixture.view(json!({ "view": "graph", "run": "p" })).await;
    for edge in ["begin pack", "pack send"] {
        assert!(edges(&drawing).contains(&edge.to_string()), "{edge}: {:?}", edges(&drawing));
    }
    // A run that has not begun.
    graph.run(vec![1]).id("new").checkpoint(&fixture.store).enqueue().await.unwrap();
    let drawing = fixture.view(json!({ "view": "graph", "run": "new" })).await;
    assert_eq!(inner(&drawing), ["begin"]);
    assert_eq!(drawing["marks"]["begin"]["current"], 1);
}

async fn k3_deploy_check_names_the_runs_that_a_program_would_not_serve(fixture: Fixture) {
    let (order, parcels) = (graphs::order(&Done::default()), graphs::parcels());
    order.run(Order::to("Ghent")).id("o").checkpoint(&fixture.store).await.unwrap_err();
    parcels.run(vec![1]).id("p").checkpoint(&fixture.store).await.unwrap_err();
    let both = exports(&[&order.export(), &parcels.export()]);
    let check = fixture.view(json!({ "view": "deploy", "graphs": both })).await;
    assert_eq!((&check["unserved"], &check["checked"]), (&json!(0), &json!(2)), "{check}");
    let check = fixture.view(json!({ "view": "deploy", "graphs": exports(&[&order.export()]) })).await;
    assert_eq!(check["unserved"], 1);
    let group = check["groups"].as_array().unwrap().iter().find(|group| group["graph"] == "parcels").unwrap();
    assert_eq!((&group["samples"], &group["runs"]), (&json!(["p"]), &json!(1)));
    assert!(group["advice"].as_str().is_some_and(|advice| !advice.is_empty()));
    for wrong in [json!({}), json!({ "graphs": "[]" }), json!({ "graphs": "{}" }), json!({ "graphs": both, "previous": "x" })] {
        let mut view = wrong.clone();
        view["view"] = json!("deploy");
        let failure = fixture.try_view(view).await.unwrap_err();
        assert!(failure.code == "bad_request" && failure.advice.is_some(), "{wrong}: {failure}");
    }
}

async fn k3_timeline_and_states_follow_a_run(fixture: Fixture) {
    let graph = graphs::order(&Done::default());
    graph.run(Order::to("Ghent")).id("o").checkpoint(&fixture.store).await.unwrap_err();
    graph.resume("o").resume_with("approve", &true).checkpoint(&fixture.store).await.unwrap();
    let page = fixture.view(json!({ "view": "timeline", "run": "o", "from": 1 })).await;
    let records = page["records"].as_array().unwrap();
    assert_eq!(records.len() as u64, page["record"].as_u64().unwrap());
    let steps: Vec<&str> =
        records.iter().filter(|one| one["kind"] == "step").map(|one| one["node"].as_str().unwrap()).collect();
    assert_eq!(steps, ["pay", "approve", "ship"], "{records:?}");
    assert!(records.iter().any(|one| one["kind"] == "effect" && one["node"] == "pay"), "{records:?}");
    let newest = fixture.view(json!({ "view": "timeline", "run": "o" })).await;
    let turned: Vec<Value> = newest["records"].as_array().unwrap().iter().rev().cloned().collect();
    assert_eq!(&turned, records);
    // The state at each step, and the difference of two.
    let of_step =
        |node: &str| records.iter().find(|one| one["kind"] == "step" && one["node"] == node).unwrap()["record"].clone();
    let value = fixture.view(json!({ "view": "value", "run": "o", "record": of_step("approve"), "pointer": "/steps" })).await;
    assert_eq!(value["text"], "[\"pay\",\"approve\"]");
    let diff = fixture.view(json!({ "view": "diff", "run": "o", "from": 1, "to": of_step("pay") })).await;
    assert_eq!(diff["patch"], json!([{ "op": "add", "path": "/steps/0", "value": "\"pay\"" }]));
    assert_eq!((&diff["is_cut"], &diff["other_run"]), (&json!(false), &Value::Null));
    let same = fixture.view(json!({ "view": "diff", "run": "o", "from": 1, "to": 1 })).await;
    assert!(same["patch"] == json!([]) && same["lines"].as_array().unwrap().iter().all(|line| line["kind"] == "same"));
    // Every view of a missing run says so.
    for view in [
        json!({ "view": "run" }),
        json!({ "view": "timeline" }),
        json!({ "view": "value" }),
        json!({ "view": "graph" }),
        json!({ "view": "diff", "from": 1, "to": 1 }),
    ] {
        let mut asked = view.clone();
        asked["run"] = json!("none");
        assert_eq!(fixture.try_view(asked).await.unwrap_err().code, "not_found", "{view}");
    }
}
