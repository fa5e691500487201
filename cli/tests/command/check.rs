//! `pleach check` and `pleach graph render`.

use crate::fixture::{Fixture, Order, Place, call, on_both_stores, orders, pleach, waits};
use pleach::prelude::*;
use std::io::Write as _;
use std::process::Stdio;

on_both_stores!(check_finds_unserved_runs, drawing_marks_the_nodes_of_a_run);

/// The graph of a later program, with one more node.
pub fn later_orders() -> CompiledGraph<Order> {
    let same = |order: Order| async move { Ok::<_, String>(order) };
    Graph::new("order")
        .add_node("pay", same)
        .add_node("approve", same)
        .add_node("pack", same)
        .add_edge("pay", "approve")
        .add_edge("approve", "pack")
        .add_edge("pack", END)
        .set_entry("pay")
        .compile()
        .unwrap()
}

async fn check_finds_unserved_runs(place: Place) {
    let fixture = Fixture::full(place).await;
    let check = |file: &str, extra: &[&str]| call(&[&["check", fixture.store.as_str(), "--graphs", file], extra].concat());
    let stuck = check(&fixture.exports(&[orders().export(), waits().export()]), &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&stuck.out).unwrap();
    assert_eq!((stuck.code, &json["unserved"], &json["checked"]), (7, &1.into(), &5.into()), "the stuck run: {stuck:?}");
    assert_eq!(fixture.runs("delete", &["stuck-1", "--yes"]).code, 0);
    let served = check(&fixture.exports(&[orders().export(), waits().export()]), &[]);
    assert!(served.code == 0 && served.out.ends_with("4 unfinished runs checked, 0 not served\n"), "{served:?}");
    let unserved = check(&fixture.exports(&later_orders().export()), &[]);
    assert_eq!(unserved.code, 7, "{unserved:?}");
    for part in ["accept_fingerprints", "no graph has this name", "4 unfinished runs checked, 4 not served"] {
        assert!(unserved.out.contains(part), "{part}: {unserved:?}");
    }
    let groups = check(&fixture.exports(&later_orders().export()), &["--jq", ".groups[].fit"]);
    assert_eq!(groups.out, "unknown_graph\nunknown_fingerprint\n");
    let mut piped =
        pleach(&["check", &fixture.store, "--graphs", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"[]").unwrap();
    assert_eq!(piped.wait().unwrap().code(), Some(7));
    assert_eq!(check(&fixture.exports(&"text"), &[]).code, 2);
    assert_eq!(check("/no/such/file.json", &[]).code, 3);
    let mut newer = serde_json::to_value(orders().export()).unwrap();
    newer["format"] = 99.into();
    assert_eq!(check(&fixture.exports(&newer), &[]).code, 5);
}

async fn drawing_marks_the_nodes_of_a_run(place: Place) {
    let fixture = Fixture::full(place).await;
    let file = fixture.exports(&[orders().export(), waits().export()]);
    let render = |extra: &[&str]| call(&[&["graph", "render", file.as_str()], extra].concat());
    let several = render(&[]);
    assert!(several.code == 2 && several.err.contains("--graph"), "{several:?}");
    let plain = render(&["--graph", "waits"]).out;
    assert!(plain.starts_with("<svg ") && plain.contains(">wait<"), "{plain}");
    assert_eq!(render(&["--graph", "none"]).code, 3);
    for (run, svg, mermaid, dot) in [
        ("order-2", "class=\"current\"", "class n1 current", "n1 [class=current"),
        ("order-3", "class=\"failed\"", "class n2 failed", "n2 [class=failed"),
    ] {
        let drawn = |kind: &str| render(&["--output", kind, "--run", &fixture.store, run]).out;
        assert!(drawn("svg").contains(svg), "{}", drawn("svg"));
        assert!(drawn("mermaid").contains(mermaid) && drawn("mermaid").contains("class n0 visited"), "{}", drawn("mermaid"));
        assert!(drawn("dot").contains(dot) && drawn("dot").ends_with("}\n"), "{}", drawn("dot"));
    }
    assert_eq!(render(&["--run", &fixture.store, "nothing"]).code, 3);
}
