//! The words that read: `list`, `show`, `history`, `diff`.

use crate::fixture::{BIG, ESCAPE, Fixture, Place, call, on_both_stores};

on_both_stores!(
    list_filters_pages_and_groups,
    show_says_what_a_person_needs,
    states_are_exact,
    history_lists_the_records,
    runs_are_found_by_a_unique_beginning,
    awkward_ids_and_texts_are_harmless,
    empty_results_are_no_errors,
    fields_and_filters_select,
);

fn ids(json: &serde_json::Value) -> Vec<String> {
    json["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_string()).collect()
}

async fn list_filters_pages_and_groups(place: Place) {
    let fixture = Fixture::full(place).await;
    let all = fixture.json("list", &[]);
    assert_eq!(ids(&all), ["stuck-1", "signal-1", ESCAPE, "-dash", "order-3", "order-2", "order-1"]);
    assert_eq!(ids(&fixture.json("list", &["--failed"])), ["order-3"]);
    assert_eq!(ids(&fixture.json("list", &["--status", "stuck"])), ["stuck-1"]);
    assert_eq!(ids(&fixture.json("list", &["--graph", "waits"])), ["signal-1"]);
    assert_eq!(ids(&fixture.json("list", &["--tag", "customer=41"])), ["order-1"]);
    assert_eq!(ids(&fixture.json("list", &["--id-prefix", "-d"])), ["-dash"]);
    assert_eq!(ids(&fixture.json("list", &["--since", "1h", "--id-prefix", "order"])), ["order-3", "order-2", "order-1"]);
    assert_eq!(ids(&fixture.json("list", &["--before", "1h"])), Vec::<String>::new());
    let (mut after, mut seen) = (None::<String>, Vec::new());
    loop {
        let more = after.as_deref().map_or(vec![], |after| vec!["--after", after]);
        let page = fixture.json("list", &[&["--limit", "3"], more.as_slice()].concat());
        seen.extend(ids(&page));
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_string()),
            None => break,
        }
    }
    assert_eq!(seen, ids(&all), "pages have every run once");
    let groups = fixture.json("list", &["--group-by", "status"]);
    let count = |name: &str| {
        let groups = groups["groups"].as_array().unwrap();
        groups.iter().find(|group| group["name"] == name).map(|group| group["runs"].as_u64().unwrap())
    };
    assert_eq!((count("waiting"), count("failed"), count("running")), (Some(4), Some(1), None));
    let errors = fixture.json("list", &["--group-by", "error"]);
    let names: Vec<&str> = errors["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"no printer") && names.contains(&"ship: the truck"), "{names:?}");
    let text = fixture.runs("list", &["--group-by", "graph"]);
    assert!(text.out.contains("order") && text.out.starts_with("RUNS"), "{text:?}");
}

async fn show_says_what_a_person_needs(place: Place) {
    let fixture = Fixture::full(place).await;
    let waiting = fixture.runs("show", &["order-2"]).out;
    for part in
        ["status      waiting", "customer=42", "question approve", "\"ship rice?\"", "pleach runs answer", "approve JSON"]
    {
        assert!(waiting.contains(part), "{part}: {waiting}");
    }
    let failed = fixture.runs("show", &["order-3"]).out;
    for part in ["status      failed", "at node \"ship\", attempt 1: the truck", "pleach runs retry"] {
        assert!(failed.contains(part), "{part}: {failed}");
    }
    let stuck = fixture.runs("show", &["stuck-1"]).out;
    for part in ["status      stuck", "trouble     no printer", "pleach runs unstick"] {
        assert!(stuck.contains(part), "{part}: {stuck}");
    }
    let signal = fixture.runs("show", &["signal-1"]).out;
    assert!(signal.contains("signal more") && signal.contains("more JSON"), "{signal}");
}

async fn states_are_exact(place: Place) {
    let fixture = Fixture::full(place).await;
    let called = fixture.runs("show", &["order-2", "--jq", ".tokens[0].state.number"]);
    assert_eq!(called.out, format!("{BIG}\n"));
    let state = fixture.runs("show", &["order-2", "--record", "1"]).out;
    assert!(state.contains(&BIG.to_string()), "{state}");
    let diff = fixture.json("diff", &["order-2", "1", "3"]);
    assert_eq!(diff["patch"], serde_json::json!([{"op": "add", "path": "/steps/0", "value": "pay"}]));
    assert_eq!(fixture.runs("diff", &["order-2", "1", "3"]).out, "+ /steps/0 \"pay\"\n");
    assert!(fixture.runs("diff", &["order-2", "1", "1"]).out.contains("are equal"));
    assert_eq!(fixture.runs("diff", &["order-2", "1", "99"]).code, 3);
}

async fn history_lists_the_records(place: Place) {
    let fixture = Fixture::full(place).await;
    let all = fixture.json("history", &["order-3"]);
    let kinds: Vec<&str> = all["records"].as_array().unwrap().iter().map(|record| record["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[1], kinds[2], *kinds.last().unwrap()), ("start", "effect", "step", "end"), "{kinds:?}");
    let first = fixture.json("history", &["order-3", "--limit", "2"]);
    assert_eq!((first["records"].as_array().unwrap().len(), first["next"].as_u64()), (2, Some(3)));
    let text = fixture.runs("history", &["order-3", "--limit", "2"]).out;
    assert!(text.starts_with("RECORD") && text.contains("more: pleach runs history"), "{text}");
    let later = fixture.json("history", &["order-3", "--from", "99"]);
    assert_eq!(later["records"], serde_json::json!([]));
}

async fn runs_are_found_by_a_unique_beginning(place: Place) {
    let fixture = Fixture::full(place).await;
    assert_eq!(fixture.json("show", &["sig"])["id"], "signal-1");
    let several = fixture.runs("show", &["order"]);
    assert!(several.code == 2 && several.err.contains("order-1, ") || several.err.contains("order-3"), "{several:?}");
    let none = fixture.runs("show", &["nothing"]);
    assert!(none.code == 3 && none.err.contains("help: list the runs with: pleach runs list"), "{none:?}");
    assert_eq!(fixture.runs("show", &[""]).code, 2);
}

async fn awkward_ids_and_texts_are_harmless(place: Place) {
    let fixture = Fixture::full(place).await;
    assert_eq!(fixture.json("show", &["-dash"])["id"], "-dash");
    assert_eq!(fixture.runs("show", &["--jq", ".id", "--", "-dash"]).out, "-dash\n");
    assert_eq!(fixture.json("show", &[ESCAPE])["id"], ESCAPE);
    for arguments in
        [&["show", ESCAPE][..], &["show", "order-3"], &["list"], &["history", "order-3"], &["show", "esc", "--json"]]
    {
        for extra in [&[][..], &["--color", "always"]] {
            let called = fixture.runs(arguments[0], &[&arguments[1..], extra].concat());
            assert_eq!(called.code, 0, "{called:?}");
            let rest = called.out.replace("\u{1b}[0m", "");
            let painted =
                ["1", "2", "32", "33", "34"].iter().fold(rest, |text, code| text.replace(&format!("\u{1b}[{code}m"), ""));
            // Red is used for failed and stuck runs, at the start of a word that this command
            // wrote.
            let painted = painted.replace("\u{1b}[31mfailed", "").replace("\u{1b}[31mstuck", "");
            assert!(!painted.contains(['\u{1b}', '\u{9b}']), "{arguments:?} {painted:?}");
        }
    }
    // Words that find, follow, explain or refuse such a run; in both outputs.
    for arguments in [
        &["runs", "tail", &fixture.store, ESCAPE, "--timeout", "0s"][..],
        &["runs", "answer", &fixture.store, ESCAPE, "key\u{1b}[1m", "1", "--dry-run"],
        &["runs", "rewind", &fixture.store, ESCAPE, "99", "--yes"],
        &["runs", "delete", &fixture.store, ESCAPE],
        &["runs", "show", &fixture.store, "no\u{1b}[1m"],
        &["why", &fixture.store, ESCAPE],
        &["why", &fixture.store, "order-3"],
        &["why", &fixture.store, "no\u{1b}[1m"],
        &["doctor", &fixture.store],
        &["check", &fixture.store, "--graphs", "no\u{1b}[1m"],
    ] {
        let called = call(arguments);
        assert!(!(called.out + &called.err).contains(['\u{1b}', '\u{9b}']), "{arguments:?}");
    }
    let command = fixture.runs("show", &[ESCAPE]).out;
    assert!(command.contains(r"$'esc\x1b[31m'"), "the suggested command can be pasted: {command}");
}

async fn empty_results_are_no_errors(place: Place) {
    let fixture = Fixture::empty(place).await;
    let list = fixture.runs("list", &[]);
    assert_eq!((list.code, list.out.as_str()), (0, "no runs\n"));
    let json = fixture.json("list", &[]);
    assert_eq!((&json["runs"], &json["next"], &json["version"]), (&serde_json::json!([]), &serde_json::json!(null), &1.into()));
    assert_eq!(fixture.runs("list", &["--group-by", "error"]).out, "no runs\n");
    assert_eq!(fixture.runs("list", &["--jq", ".runs[].id"]).out, "");
}

async fn fields_and_filters_select(place: Place) {
    let fixture = Fixture::full(place).await;
    let fields = fixture.runs("list", &["--fields", "id,status", "--limit", "1"]);
    let json: serde_json::Value = serde_json::from_str(&fields.out).unwrap();
    assert_eq!(json["runs"], serde_json::json!([{"id": "stuck-1", "status": "stuck"}]));
    let unknown = fixture.runs("list", &["--fields", "name"]);
    assert!(unknown.code == 2 && unknown.err.contains("the fields are:") && unknown.out.is_empty(), "{unknown:?}");
    assert_eq!(fixture.runs("list", &["--failed", "--jq", ".runs[].failure.node"]).out, "ship\n");
    assert_eq!(fixture.runs("list", &["--jq", ".["]).code, 2);
    assert_eq!(fixture.runs("list", &["--jq", ".version.x"]).code, 1);
}
