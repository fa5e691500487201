//! Properties of redaction over random JSON and random texts.

use super::Redaction;
use super::json::{Kind, Node, Parsed, parse};
use super::place::Place;
use super::restore::canonical;
use super::tests::{SECRET, hidden};
use proptest::prelude::*;
use serde_json::Value;
use std::ops::ControlFlow;

/// JSON texts with numbers of any length, secret and plain keys, and texts within texts.
fn json_text() -> impl Strategy<Value = String> {
    let number = prop_oneof!["-?(0|[1-9][0-9]{0,30})", "(0|[1-9][0-9]{0,3})\\.[0-9]{1,20}", "[1-9]E[+-]?[0-9]{1,2}"];
    let string = prop_oneof![
        any::<String>(),
        Just(format!("password={SECRET}")),
        Just(format!("u://a:{SECRET}@b Bearer {SECRET}")),
        Just("plain [x] {y}".to_string()),
    ];
    let word = prop_oneof![Just("true".to_string()), Just("null".to_string())];
    let leaf = prop_oneof![number, string.prop_map(|text| Value::from(text).to_string()), word];
    leaf.prop_recursive(5, 48, 5, |inner| {
        let key = prop_oneof![
            "[a-z]{1,6}",
            any::<String>(),
            Just("password".to_string()),
            Just("X-Api-Key".to_string()),
            Just("name".to_string()),
            Just("path".to_string()),
            Just("value".to_string()),
        ];
        let option =
            prop_oneof!["--password", "-db-token", "--api-key=x", "token", "-v"].prop_map(|name| Value::from(name).to_string());
        let member = (key, inner.clone()).prop_map(|(key, value)| format!("{} : {value}", Value::from(key)));
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(" ,\n"))),
            prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(",\n "))),
            prop::collection::vec(prop_oneof![option.clone(), inner.clone()], 0..5)
                .prop_map(|items| format!("[{}]", items.join(","))),
            (option, inner.clone()).prop_map(|(name, value)| format!("[[{name}, {value}]]")),
            inner.prop_map(|text| Value::from(text).to_string()),
        ]
    })
}

/// Collects the values that are in no secret and have none, with their pointers.
fn visible<'a>(rules: &Redaction, node: &'a Node, place: Place, pointer: &str, found: &mut Vec<(String, &'a Node)>) {
    if place.is_secret {
        return;
    }
    found.push((pointer.to_string(), node));
    match &node.kind {
        Kind::Array(items) => {
            for (number, (item, place)) in items.iter().zip(rules.item_places(items, place)).enumerate() {
                visible(rules, item, place, &format!("{pointer}/{number}"), found);
            }
        }
        Kind::Object(members) => {
            for (member, place) in members.iter().zip(rules.member_places(node)) {
                let step = member.key.replace('~', "~0").replace('/', "~1");
                visible(rules, &member.value, place, &format!("{pointer}/{step}"), found);
            }
        }
        _ => {}
    }
}

/// Collects the numbers that are in no secret.
fn numbers<'a>(rules: &Redaction, text: &'a str, node: &Node) -> Vec<&'a str> {
    let mut found = Vec::new();
    visible(rules, node, Place::default(), "", &mut found);
    found.iter().filter(|(_, node)| matches!(node.kind, Kind::Number)).map(|(_, node)| &text[node.span.clone()]).collect()
}

/// The JSON text without white space.
fn plain(text: &str) -> String {
    let Parsed::Json(node) = parse(text) else { panic!("no JSON: {text}") };
    canonical(text, &node)
}

#[test]
fn k7_a_large_value_is_redacted_piece_by_piece() {
    let people: Vec<String> =
        (0..40_000).map(|n| format!("{{\"n\": {n}, \"key\": \"token\", \"value\": \"{SECRET}\", \"x\": 0.10}}")).collect();
    let text = format!("{{\"password\": [{0}], \"people\": [{0}], \"last\": 9223372036854775807}}", people.join(", "));
    let (mut written, mut pieces) = (String::new(), 0);
    let done = Redaction::new().write_at(Place::default(), &text, |piece| {
        assert!(piece.len() < 512 * 1024, "{}", piece.len());
        written.push_str(&piece);
        pieces += 1;
        ControlFlow::Continue(())
    });
    assert!(done.is_continue() && pieces > 10, "{pieces} pieces");
    assert!(!written.contains(SECRET) && written.ends_with("\"last\": 9223372036854775807}"));
    assert_eq!(written.matches("\"x\": 0.10}").count(), 40_000, "the list of passwords is hidden as a whole");
    let stopped = Redaction::new().write_at(Place::default(), &text, |_| ControlFlow::Break(()));
    assert!(stopped.is_break());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn k7_json_stays_json_with_its_lines_and_numbers(text in json_text()) {
        let rules = Redaction::new();
        let shown = rules.string(&text);
        prop_assert!(!shown.contains(SECRET), "{}", shown);
        prop_assert_eq!(shown.lines().count(), text.lines().count());
        prop_assert_eq!(rules.string(&shown), shown.clone());
        let (Parsed::Json(before), Parsed::Json(after)) = (parse(&text), parse(&shown)) else {
            return Err(TestCaseError::fail(format!("no JSON any more: {shown}")));
        };
        prop_assert_eq!(numbers(&rules, &text, &before), numbers(&rules, &shown, &after));
    }

    #[test]
    fn k7_a_part_by_its_pointer_is_redacted_as_in_the_whole(text in json_text()) {
        let rules = Redaction::new();
        let Parsed::Json(root) = parse(&text) else { return Err(TestCaseError::fail("no JSON")) };
        let (known, mut found) = (rules.places_in(&text), Vec::new());
        visible(&rules, &root, Place::default(), "", &mut found);
        for (pointer, node) in found {
            // A key that occurs twice, or a key in the pointer that looks like a secret one.
            let place = known.at(&pointer);
            prop_assert_eq!(rules.place_at(&text, &pointer), place, "{}", pointer);
            let part = &text[node.span.clone()];
            prop_assert!(!rules.text_at(place, part).contains(SECRET), "{}", pointer);
        }
    }

    #[test]
    fn k7_pieces_of_a_large_value_are_the_redacted_value(text in json_text(), piece in 0_usize..60, is_below in any::<bool>(), is_item in any::<bool>()) {
        let (rules, place) = (Redaction::new(), Place { is_secret: is_below, is_item });
        let mut written = String::new();
        let done = rules.write_pieces(place, &text, piece, |piece| {
            written.push_str(&piece);
            ControlFlow::Continue(())
        });
        prop_assert!(done.is_continue());
        prop_assert_eq!(written, rules.text_at(place, &text));
    }

    #[test]
    fn k7_an_unchanged_state_is_restored(text in json_text()) {
        let rules = Redaction::new();
        let shown = rules.text_at(Place::default(), &text);
        match rules.restore(&shown, &text) {
            // Only line breaks in the place of secret values may differ.
            Ok(restored) => prop_assert_eq!(plain(&restored), plain(&text)),
            // The same key twice, or two keys that look alike: they cannot be told apart.
            Err(failure) => prop_assert_eq!(failure.code, "redacted"),
        }
    }

    #[test]
    fn k7_no_text_makes_redaction_fail(text in any::<String>(), key in "(password|token|Bearer|secret|://a)[ =:\"'\\\\{(\\[@]{0,6}") {
        let rules = Redaction::new();
        let text = format!("{text}{key}{text}");
        let shown = rules.string(&text);
        prop_assert_eq!(rules.string(&shown), shown);
    }

    #[test]
    fn k7_a_planted_secret_is_hidden_in_any_text(before in "[ -~]{0,20}", after in "[ -~]{0,20}") {
        for planted in [
            format!("{{\"password\":\"{SECRET}\"}}"),
            format!(" password={SECRET} "),
            format!(" token: \"{SECRET}\" "),
            format!(" postgres://user:{SECRET}@host/db "),
        ] {
            let shown = hidden(&format!("{before} {planted} {after}"));
            prop_assert!(!shown.contains(SECRET), "{}", shown);
        }
    }
}
