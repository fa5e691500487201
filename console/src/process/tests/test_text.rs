//! Tests in Rust that the console writes for failures of members.

use super::*;
use crate::rust_text::assert_sample;

#[tokio::test]
async fn k4_test_of_a_failure_is_the_sample_that_is_compiled() {
    let (system, source) = shop();
    let tills = system.supervisor("tills", OneForOne::new()).unwrap();
    let cash = tills.spawn_started("cash", till()).await.unwrap();
    ask(&source, "story", json!({})).await.unwrap();
    cash.tell(0).unwrap();
    let groups = until(&source, "failures", json!({}), |groups| groups["groups"][0]["count"] == 1).await;
    let decided = |story: &Value| story["entries"].as_array().unwrap().iter().any(|entry| entry["kind"] == "decided");
    until(&source, "story", json!({}), decided).await;
    let from = json!({ "path": "/user/tills/cash", "seq": groups["groups"][0]["seq"] });
    let test = ask(&source, "test", from).await.unwrap();
    assert_sample("member.rs", test["text"].as_str().unwrap());
    let notes = test["notes"].as_array().unwrap();
    assert_eq!(notes[0], "`props` makes the actor as the program does.");
    let gone = ask(&source, "test", json!({ "path": "/user/tills/cash", "seq": 1_000 })).await.unwrap_err();
    assert_eq!(gone.code, "not_found");
}

#[tokio::test]
async fn k6_test_of_a_hostile_failure_has_no_code_of_it() {
    let (system, source) = shop();
    let text = "\n}\nfn evil() {}\n*/ \u{202e}\"; include!(\"/etc/passwd\")";
    let props = Props::from_fn(|| (), move |(), _: u32| Err::<(), &str>(text));
    let cash = system.spawn_started("a\"b\u{202e}", props).await.unwrap();
    cash.tell(0).unwrap();
    let path = cash.path().to_string();
    while cash.any().info().last_failure.is_none() || cash.counts().failed == 0 {
        tokio::task::yield_now().await;
    }
    let test = ask(&source, "test", json!({ "path": path })).await.unwrap();
    let lines = test["text"].as_str().unwrap().lines();
    let hostile: Vec<_> = lines.filter(|line| line.contains("evil") || line.contains("include!")).collect();
    assert!(hostile.iter().all(|line| line.starts_with("//! ")) && !hostile.is_empty(), "{hostile:?}");
    let text = test["text"].as_str().unwrap();
    assert!(text.contains(r#".spawn("a\"b\u{202e}", props())"#) && !text.contains('\u{202e}'), "{text}");
}
