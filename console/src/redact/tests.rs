//! Tests of redaction by examples.

use super::place::Place;
use super::{MARK, Redaction};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) const SECRET: &str = "hunter2canary";

pub(super) fn hidden(text: &str) -> String {
    Redaction::new().string(text)
}

#[test]
fn k7_secrets_in_plain_texts_are_hidden() {
    for (text, expected) in [
        ("password=hunter2canary next", "password=[redacted] next"),
        ("DB_PASSWORD: hunter2canary, x", "DB_PASSWORD: [redacted], x"),
        ("Config { user: \"a\", password: \"hunter2canary\", n: 1 }", "Config { user: \"a\", password: \"[redacted]\", n: 1 }"),
        ("password: Some(\"hunter2canary\") }", "password: [redacted] }"),
        ("secret => 'hunter2canary'.", "secret => '[redacted]'."),
        ("call --password hunter2canary --verbose", "call --password [redacted] --verbose"),
        ("call -password hunter2canary -v", "call -password [redacted] -v"),
        ("got Bearer hunter2canary from", "got Bearer [redacted] from"),
        ("Authorization: Basic hunter2canary==\nHost: x", "Authorization: [redacted]\nHost: x"),
        ("Cookie: a=hunter2canary; b=hunter2canary\nx", "Cookie: [redacted]\nx"),
        ("connect postgres://me:hunter2canary@db:5432/shop failed", "connect postgres://me:[redacted]@db:5432/shop failed"),
        ("at http://u:hunter2/canary@h/x", "at http://u:[redacted]@h/x"),
        ("https://api/x?token=hunter2canary&page=2", "https://api/x?token=[redacted]&page=2"),
        ("bad body {\"password\":\"hunter2canary\",\"n\":1} at 3", "bad body {\"password\":\"[redacted]\",\"n\":1} at 3"),
        (r#"bad {\"password\":\"hunter2\\\"canary\",\"n\":1}"#, r#"bad {\"password\":\"[redacted]\",\"n\":1}"#),
        ("bad {\"secret\":{\"a\":[\"hunter2canary\"]},\"n\":1}", "bad {\"secret\":\"[redacted]\",\"n\":1}"),
        ("password=\"hunter2\\\"canary\" x", "password=\"[redacted]\" x"),
        ("[(\"x-api-key\", \"hunter2canary\"), (\"host\", \"h\")]", "[(\"x-api-key\", \"[redacted]\"), (\"host\", \"h\")]"),
        (r#"(\"token\",\"hunter2canary\")"#, r#"(\"token\",\"[redacted]\")"#),
        ("run [\"--password\", \"hunter2canary\", \"-v\"]", "run [\"--password\", \"[redacted]\", \"-v\"]"),
        ("(\"token\",\n  Some(\"hunter2canary\"))", "(\"token\",\n  [redacted])"),
        ("(\"cookie\", b\"hunter2canary\")", "(\"cookie\", [redacted])"),
        ("password: b\"hunter2canary\", n: 1", "password: [redacted], n: 1"),
        ("connect postgres://app:hunter2canary", "connect postgres://app:[redacted]"),
        ("connect redis://:hunter2can… failed", "connect redis://:[redacted]… failed"),
        ("token: 'hunter2canary", "token: '[redacted]"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nhunter2canary\n-----END RSA PRIVATE KEY-----\nx",
            "-----BEGIN RSA PRIVATE KEY-----[redacted]\n\n-----END RSA PRIVATE KEY-----\nx",
        ),
    ] {
        assert_eq!(hidden(text), expected);
        assert_eq!(hidden(expected), expected, "twice is once");
    }
}

#[test]
fn k7_texts_without_secrets_stay_as_they_are() {
    for text in [
        "",
        "the password was wrong",
        "the bearer token is missing",
        "http://localhost:8080/a?email=me@example.com",
        "postgres://me@db/shop",
        "at http://localhost:8080.",
        "listens on http://[::1]:8080",
        "the password, \"x\"",
        "(\"token\", 7)",
        "token::parse failed at 3:7",
        "password: , next",
        "password: null",
        "unstable tokens: 7",
        "größe=漢字 🙂 \u{1b}[31m",
    ] {
        assert_eq!(hidden(text), text);
    }
}

/// With work that grows faster than the text, this test does not end.
#[test]
fn k7_long_hostile_texts_are_redacted_in_one_pass() {
    for part in [
        "://",
        "://a:",
        "://a:b",
        "://a:1/",
        "://a@",
        "://:@ ",
        "bearer ",
        "Bearer  x ",
        "password",
        "password ",
        "password=",
        "password=\"",
        "password: [",
        "password=\\",
        "--password ",
        "authorization: ",
        "\"token\", ",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----[redacted]-----END",
        "(\"token\"",
        "b\"",
        "password:b\"",
    ] {
        let text = format!("x{} @", part.repeat(200_000 / part.len()));
        assert!(hidden(&text).len() <= 2 * text.len(), "{part}");
    }
    let long = format!("{}://u:{SECRET}@h", "://".repeat(1_000));
    assert!(hidden(&long).ends_with("://u:[redacted]@h"));
    let password = SECRET.repeat(200);
    assert_eq!(hidden(&format!("https://u:{password}@h/x")), "https://u:[redacted]@h/x");
}

#[test]
fn k7_secrets_in_json_are_hidden_at_any_depth_and_in_texts_within() {
    let inner = json!({ "api_key": SECRET, "n": 1 }).to_string();
    let twice = json!({ "body": json!({ "text": inner }).to_string() }).to_string();
    let mut value = json!({
        "a": [{ "Password": SECRET }, { "key": "token", "value": SECRET }, { "key": "token", "text": SECRET }],
        "op": { "op": "replace", "path": "/user/password/0", "value": SECRET },
        "twice": twice,
        "secret": { "nested": [SECRET] },
        "pin_token": 7,
        "has_password": true,
        SECRET: 1,
        "Bearer hunter2canary": 1,
    });
    Redaction::new().keys(["hunter"]).value(&mut value);
    let text = value.to_string().replace(&format!("\"{SECRET}\":1"), "");
    assert!(!text.contains(SECRET), "{text}");
    assert_eq!((&value["has_password"], &value["pin_token"]), (&json!(true), &json!(MARK)));
}

/// Lists with secrets: each with what is shown.
const LISTS: [(&str, &str); 12] = [
    (r#"["run","--password","hunter2canary","-v"]"#, r#"["run","--password","[redacted]","-v"]"#),
    (r#"["--token=hunter2canary","-v"]"#, r#"["--token=[redacted]","-v"]"#),
    (r#"["-password","hunter2canary"]"#, r#"["-password","[redacted]"]"#),
    (r#"["\u002d-password","hunter2canary"]"#, r#"["\u002d-password","[redacted]"]"#),
    (r#"{"a":[{"args":["--api-key", ["hunter2canary"] , 1]}]}"#, r#"{"a":[{"args":["--api-key", "[redacted]" , 1]}]}"#),
    (r#"["--password",{"x":"hunter2canary"},7]"#, r#"["--password","[redacted]",7]"#),
    (r#"["--password",123456]"#, r#"["--password","[redacted]"]"#),
    (r#"["--password","--hunter2canary"]"#, r#"["--password","[redacted]"]"#),
    (r#"[["authorization","Basic hunter2canary"],["host","h"]]"#, r#"[["authorization","[redacted]"],["host","h"]]"#),
    (r#"["PASSWORD=hunter2canary","A=1"]"#, r#"["PASSWORD=[redacted]","A=1"]"#),
    (r#"{"x":"[\"--password\",\"hunter2canary\"]"}"#, r#"{"x":"[\"--password\",\"[redacted]\"]"}"#),
    // Names of secrets are none.
    (
        r#"[["name","password","email"],["user","password"],["--verbose","x"],"--password=",["--password"]]"#,
        r#"[["name","password","email"],["user","password"],["--verbose","x"],"--password=",["--password"]]"#,
    ),
];

#[test]
fn k7_secrets_in_lists_of_arguments_and_of_pairs_are_hidden() {
    let rules = Redaction::new();
    for (text, expected) in LISTS {
        assert_eq!(rules.string(text), expected);
        assert_eq!(rules.string(expected), expected, "twice is once");
        let mut value: Value = serde_json::from_str(text).unwrap();
        rules.value(&mut value);
        assert_eq!(value, serde_json::from_str::<Value>(expected).unwrap());
        assert_eq!(rules.restore(expected, text).unwrap(), text, "an unchanged list is restored");
    }
}

#[test]
fn k7_a_value_below_a_secret_pointer_is_hidden() {
    let rules = Redaction::new();
    let json = r#"{"a/b":[{"password":[1, 2]},{"name":"token","value":{"x":["y"]}},["-v","--token","t"],[["secret","s"]]]}"#;
    let known = rules.places_in(json);
    for (pointer, is_secret) in [
        ("", false),
        ("/a~1b/0", false),
        ("/a~1b/0/password", true),
        ("/a~1b/0/password/1", true),
        ("/a~1b/1/name", false),
        ("/a~1b/1/value/x/0", true),
        ("/a~1b/2/0", false),
        ("/a~1b/2/1", false),
        ("/a~1b/2/2", true),
        ("/a~1b/3/0/0", false),
        ("/a~1b/3/0/1", true),
        ("/nowhere/password", true),
    ] {
        assert_eq!((rules.place_at(json, pointer).is_secret, known.at(pointer).is_secret), (is_secret, is_secret), "{pointer}");
    }
    assert_eq!(rules.text_at(rules.place_at("{\"password\":[1]}", "/password"), "[1, 2]"), "\"[redacted]\"");
    assert_eq!(rules.text_at(Place::member(true), "half of \"a value"), "\"[redacted]\"");
    assert!(rules.places_in("no JSON").at("/a").is_secret);
}

#[test]
fn k7_a_secret_over_many_lines_of_a_difference_is_hidden() {
    let line = |kind: &str, text: &str| json!({ "kind": kind, "text": text });
    let diff = json!({ "lines": [
        line("same", "{"), line("same", "  \"credentials\": {"), line("removed", "    \"a\": \"hunter2canary\""),
        line("added", "    \"a\": \"hunter2canary+\""), line("same", "  },"), line("same", "  \"n\": 1.10"), line("same", "}"),
    ]});
    let view = serde_json::from_value(json!({ "view": "diff", "store": "s0", "run": "r", "from": 1, "to": 2 })).unwrap();
    let shown = Redaction::new().view(&view, diff);
    assert!(!shown.to_string().contains(SECRET), "{shown}");
    assert_eq!(shown["lines"].as_array().unwrap().len(), 7);
    assert_eq!(shown["lines"][5]["text"], "  \"n\": 1.10");
}

#[test]
fn k7_a_difference_that_loses_lines_is_hidden_as_a_whole() {
    let line = |text: &str| json!({ "kind": "same", "text": text });
    let diff = json!({ "lines": [line("password: {"), line(SECRET), line("} and more")] });
    let view = serde_json::from_value(json!({ "view": "diff", "store": "s0", "run": "r", "from": 1, "to": 2 })).unwrap();
    let joins = Redaction::new().text(|text| text.contains('\n').then(|| text.replace('\n', " ")));
    assert_eq!(joins.view(&view, diff), json!({ "lines": [line(MARK), line(MARK), line(MARK)] }));
}

#[test]
fn k7_users_add_keys_and_functions() {
    let rules = Redaction::new().keys(["IBAN"]).text(|text| text.contains("4111").then(|| text.replace("4111", "[card]")));
    assert_eq!(
        rules.string("{\"iban\": \"DE0\", \"n\": 4111, \"t\": \"4111-1\"}"),
        "{\"iban\": \"[redacted]\", \"n\": 4111, \"t\": \"[card]-1\"}"
    );
    assert_eq!(rules.string("paid with 4111"), "paid with [card]");
}

#[test]
fn k5_numbers_keep_every_digit() {
    let text =
        "{ \"id\": 9223372036854775807, \"rate\": 0.1000000000000000055511151231257827, \"e\": 1E+2, \"password\": \"x\" }";
    let shown = hidden(text);
    assert_eq!(shown, text.replace("\"x\"", "\"[redacted]\""));
    assert_eq!(Redaction::new().restore(&shown.replace("1E+2", "1E+3"), text).unwrap(), text.replace("1E+2", "1E+3"));
}

#[test]
fn k7_marks_get_their_stored_values_back() {
    let rules = Redaction::new();
    let stored =
        r#"{"user":{"password":"p1","name":"a"},"url":"pg://u:p2@h","list":[{"token":"t1","n":1},{"token":"t2","n":2}]}"#;
    let shown = rules.string(stored);
    assert!(!shown.contains("p1") && !shown.contains("p2") && !shown.contains("t1"), "{shown}");
    assert_eq!(rules.restore(&shown, stored).unwrap(), stored);
    let renamed = shown.replace("\"name\":\"a\"", "\"name\":\"b\"");
    assert_eq!(rules.restore(&renamed, stored).unwrap(), stored.replace("\"name\":\"a\"", "\"name\":\"b\""));
    let own = shown.replace("\"password\":\"[redacted]\"", "\"password\":\"own\"");
    assert_eq!(rules.restore(&own, stored).unwrap(), stored.replace("p1", "own"));
    // One element of the list was edited, or the list was turned round, or an element was removed.
    let edited = shown.replace("\"n\":2", "\"n\":3");
    assert_eq!(rules.restore(&edited, stored).unwrap(), stored.replace("\"n\":2", "\"n\":3"));
    let [one, two] = [r#"{"token":"[redacted]","n":1}"#, r#"{"token":"[redacted]","n":2}"#];
    let turned = shown.replace(&format!("{one},{two}"), &format!("{two},{one}"));
    assert!(rules.restore(&turned, stored).unwrap().contains(r#"[{"token":"t2","n":2},{"token":"t1","n":1}]"#));
    let removed = shown.replace(&format!("{one},"), "");
    assert!(rules.restore(&removed, stored).unwrap().contains(r#"[{"token":"t2","n":2}]"#));
}

#[test]
fn k7_a_mark_that_belongs_nowhere_is_refused() {
    let rules = Redaction::new();
    let stored = r#"{"user":{"password":"p1","name":"a"},"list":[{"token":"t1","n":1},{"token":"t2","n":2}],"tag":{"name":"password","value":"v"},"args":["run","--password","p2","--secret","p3","-v"]}"#;
    let shown = rules.string(stored);
    for (old, new) in [
        ("\"name\":\"a\"", "\"name\":\"[redacted]\""),
        ("\"password\":\"[redacted]\"", "\"note\":\"[redacted]\""),
        ("\"password\":\"[redacted]\"", "\"password\":\"x[redacted]\""),
        // The first element is gone, and the second one was edited: whose token is it?
        ("{\"token\":\"[redacted]\",\"n\":1},{\"token\":\"[redacted]\",\"n\":2}", "{\"token\":\"[redacted]\",\"n\":3}"),
        ("\"n\":1},{\"token\":\"[redacted]\",\"n\":2}", "\"n\":2},{\"token\":\"[redacted]\",\"n\":3}"),
        // The label said that the value is secret.
        ("{\"name\":\"password\"", "{\"name\":\"remark\""),
        // The argument before it said so; or it was that of another option.
        ("\"--password\"", "\"--user\""),
        ("\"--password\"", "\"--token\""),
        ("\"-v\"", "\"[redacted]\""),
        ("\"run\",", ""),
    ] {
        let edited = shown.replace(old, new);
        assert_ne!(edited, shown);
        assert_eq!(rules.restore(&edited, stored).map_err(|failure| failure.code), Err("redacted".to_string()), "{edited}");
    }
    assert_eq!(rules.restore("{", "{}").unwrap_err().code, "bad_request");
}

/// Restoring looks at each key once, also if all of them have marks.
#[test]
fn k7_many_marks_are_restored_in_one_pass() {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let rules = Redaction::new().text(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        None
    });
    let members: Vec<String> = (0..300).map(|n| format!("\"a{n}_token\":\"s{n}\"")).collect();
    let stored = format!("{{{},\"list\":[\"token=a\",\"token=b\"]}}", members.join(","));
    let shown = rules.string(&stored);
    assert!(!shown.contains("\"s0\"") && !shown.contains("token=a"), "{shown}");
    looks.store(0, Ordering::Relaxed);
    assert_eq!(rules.restore(&shown, &stored).unwrap(), stored);
    let looks = looks.load(Ordering::Relaxed);
    assert!(looks <= 1_000, "{looks} looks at 303 keys");
}
