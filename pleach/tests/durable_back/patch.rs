//! C5: the difference of two states is a JSON patch, exact for every number.
use crate::common::stored::StoredRunFixture;
use pleach::durable::{JsonPatch, PatchError, RunRemote};
use pleach::prelude::*;
use pleach::sim::Sim;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Numbers that a float cannot hold.
const NUMBERS: [&str; 8] = [
    "9223372036854775807",
    "18446744073709551615",
    "170141183460469231731687303715884105727",
    "-170141183460469231731687303715884105728",
    "0.1",
    "0.1000000000000000055511151231257827",
    "1e400",
    "-0.0",
];

/// Random JSON of limited depth, from few keys and values, so that parts are often equal.
fn random_json(sim: &Sim, depth: u64) -> String {
    let below = |limit: u64| sim.runtime().random() % limit;
    match below(if depth == 0 { 4 } else { 7 }) {
        0 => NUMBERS[below(NUMBERS.len() as u64) as usize].to_string(),
        1 => below(3).to_string(),
        2 => ["true", "null", "\"\"", "\"a/b~c\"", "\"\\u00e9\""][below(5) as usize].to_string(),
        3 => format!("\"text {}\"", below(3)),
        4 | 5 => {
            let items: Vec<String> = (0..below(5)).map(|_| random_json(sim, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let keys = ["a", "b", "", "a/b", "~1", "0", "-", "\\n"];
            let mut entries: BTreeMap<&str, String> = BTreeMap::new();
            for _ in 0..below(5) {
                entries.insert(keys[below(keys.len() as u64) as usize], random_json(sim, depth - 1));
            }
            let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

#[test]
fn c5_patch_turns_one_state_into_the_other() {
    let sim = Sim::new(11);
    let mut sizes = [0; 2];
    for _ in 0..20_000 {
        let (before, after) = (random_json(&sim, 4), random_json(&sim, 4));
        let patch = JsonPatch::between(&before, &after).unwrap();
        let applied = patch.apply(&before).unwrap();
        // No difference remains, by the text of every number.
        let rest = JsonPatch::between(&applied, &after).unwrap();
        assert!(rest.is_empty(), "{before} -> {after}: {patch:?} gives {applied}");
        // The patch survives its own JSON form.
        let json = serde_json::to_string(&patch).unwrap();
        let read: JsonPatch = serde_json::from_str(&json).unwrap();
        assert_eq!(read.apply(&before).unwrap(), applied);
        assert!(JsonPatch::between(&after, &after).unwrap().is_empty());
        sizes[usize::from(patch.operations.len() > 1)] += 1;
    }
    assert!(sizes[1] > 1_000, "{sizes:?}");
}

#[test]
fn c5_equal_values_have_an_empty_patch_however_they_are_written() {
    let compact = r#"{"a":[1,2.50,{"b":"\u00e9"}],"c":null}"#;
    let spaced = "{ \"c\" : null,\n \"a\" : [ 1, 2.50, { \"b\" : \"é\" } ] }";
    assert!(JsonPatch::between(compact, spaced).unwrap().is_empty());
}

#[test]
fn c5_patch_of_a_wrong_value_is_an_error() {
    let patch = JsonPatch::between(r#"{"a":{"b":1}}"#, r#"{"a":{"b":2}}"#).unwrap();
    assert!(matches!(patch.apply("[]"), Err(PatchError::Misfit { path }) if path == "/a/b"));
    assert!(matches!(patch.apply("{"), Err(PatchError::Json(_))));
    let moved: JsonPatch = serde_json::from_str(r#"[{"op":"move","from":"/a","path":"/b"}]"#).unwrap();
    assert!(matches!(moved.apply("{}"), Err(PatchError::Unknown { operation }) if operation == "move"));
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ledger {
    total: u128,
    rate: f64,
    entries: Vec<i64>,
}

#[test]
fn c5_states_of_two_records_are_compared_without_their_type() {
    let fixture = StoredRunFixture::new(1);
    let add = |mut ledger: Ledger| async move {
        ledger.total += 1;
        ledger.entries.push(i64::MAX);
        ledger
    };
    let graph = Graph::<Ledger>::new("ledger")
        .add_node("add", add)
        .add_conditional_edge("add", ["add", END], |ledger: &Ledger| if ledger.entries.len() < 2 { "add" } else { END })
        .set_entry("add")
        .compile()
        .unwrap();
    let first = Ledger { total: u128::from(u64::MAX), rate: 0.1, entries: Vec::new() };
    fixture.end(fixture.run(&graph, first)).unwrap();
    let remote = RunRemote::new(&fixture.store, "r");
    fixture.sim.run(async {
        assert_eq!(remote.state_at(1).await.unwrap(), r#"{"total":18446744073709551615,"rate":0.1,"entries":[]}"#);
        let patch = remote.state_patch(1, 3).await.unwrap();
        let expected = r#"[{"op":"add","path":"/entries/0","value":9223372036854775807},{"op":"add","path":"/entries/1","value":9223372036854775807},{"op":"replace","path":"/total","value":18446744073709551617}]"#;
        assert_eq!(serde_json::to_string(&patch).unwrap(), expected);
        assert!(remote.state_patch(2, 2).await.unwrap().is_empty());
        assert!(remote.state_at(99).await.is_err());
    });
}
