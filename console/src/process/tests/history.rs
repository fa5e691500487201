//! What the console hears while somebody watches, and what it forgets.

use super::proxy::Folder;
use super::*;
use crate::process::history::KEPT_FOR;
use pleach::supervise::RestartPolicy;

/// Returns the kinds of the entries, the newest first.
fn kinds(story: &Value) -> Vec<&str> {
    let entries = story["entries"].as_array().expect("entries");
    entries.iter().map(|entry| entry["kind"].as_str().unwrap_or("-")).collect()
}

fn has_restarted(story: &Value) -> bool {
    kinds(story).contains(&"restarted")
}

fn numbers(story: &Value) -> Vec<u64> {
    let entries = story["entries"].as_array().expect("entries");
    entries.iter().filter_map(|entry| entry["seq"].as_u64()).collect()
}

#[tokio::test]
async fn k3_story_tells_failure_decision_and_restart() {
    let (system, source) = shop();
    let tills = system.supervisor("tills", OneForAll::new()).unwrap();
    let (a, _b) = (tills.spawn_started("a", till()).await.unwrap(), tills.spawn_started("b", till()).await.unwrap());
    assert_eq!(ask(&source, "story", json!({})).await.unwrap()["entries"], json!([]));
    a.tell(0).unwrap();
    let story = until(&source, "story", json!({ "path": "/user/tills/a" }), has_restarted).await;
    assert_eq!(kinds(&story), ["restarted", "decided", "failed"]);
    let [_, decided, failed] = &story["entries"].as_array().unwrap()[..] else { panic!("{story:#}") };
    let failure = json!({
        "reason": "nothing paid", "origin": "/user/tills/a", "message": "u32", "message_type": "u32", "incarnation": 0,
    });
    assert_eq!((&failed["failure"], &decided["failure"]), (&failure, &failure));
    assert_eq!(decided["decision"]["strategy"], "one_for_all");
    assert_eq!(decided["decision"]["also"], json!(["/user/tills/b"]));
    // The story of the sibling tells why it went down.
    let story = until(&source, "story", json!({ "path": "/user/tills/b" }), has_restarted).await;
    assert_eq!(kinds(&story), ["restarted", "decided"]);
}

#[tokio::test]
async fn k3_console_opened_after_a_failure_shows_it() {
    let folder = Folder::new();
    let system = folder.system();
    let lone = system.supervisor("lone", OneForOne::new().restart_limit(0, Duration::from_secs(5))).unwrap();
    let (weak, cash) = (lone.spawn("weak", till()).unwrap(), system.spawn("cash", till()).unwrap());
    weak.tell(0).unwrap();
    cash.tell(0).unwrap();
    weak.exited().await;
    while cash.any().info().last_failure.is_none() || cash.counts().failed == 0 {
        tokio::task::yield_now().await;
    }
    let memory = ProcessSource::of_system("p0", &system, []);
    for source in [&memory, &ProcessSource::of_socket("p0", folder.socket())] {
        let story = ask(source, "story", json!({ "path": "/user/cash" })).await.unwrap();
        assert_eq!(kinds(&story), ["failed"], "{story:#}");
        assert_eq!(story["entries"][0]["failure"]["reason"], "nothing paid");
        let story = ask(source, "story", json!({ "path": "/user/lone/weak" })).await.unwrap();
        assert_eq!(kinds(&story)[0], "gave_up", "{story:#}");
        assert_eq!(story["entries"][0]["failure"]["reason"], "nothing paid");
        let groups = ask(source, "failures", json!({ "contains": "CASH" })).await.unwrap();
        assert_eq!((&groups["groups"][0]["message"], &groups["groups"][0]["count"]), (&json!("u32"), &json!(1)));
    }
}

#[tokio::test]
async fn k3_failures_and_dead_letters_are_grouped_and_counted() {
    let (system, source) = shop();
    let tills = system.supervisor("tills", pleach::supervise::AlwaysRestart).unwrap();
    let cash = tills.spawn_started("cash", till()).await.unwrap();
    ask(&source, "failures", json!({})).await.unwrap();
    for _ in 0..5 {
        cash.tell(0).unwrap();
    }
    let groups = until(&source, "failures", json!({}), |groups| groups["groups"][0]["count"] == 5).await;
    assert_eq!(groups["groups"].as_array().unwrap().len(), 1);
    assert_eq!((&groups["groups"][0]["per_minute"], &groups["missed"]), (&json!(5), &json!(0)));
    let seq = groups["groups"][0]["seq"].as_u64().unwrap();
    let story = ask(&source, "story", json!({ "path": "/user/tills/cash", "before": seq + 1, "limit": 1 })).await.unwrap();
    assert_eq!((kinds(&story), numbers(&story)), (vec!["failed"], vec![seq]));
    cash.any().suspend().unwrap();
    for _ in 0..3 {
        cash.tell(1).unwrap();
    }
    cash.stop();
    let letters = until(&source, "failures", json!({ "kind": "dead_letters" }), |of| of["groups"][0]["count"] == 3).await;
    assert_eq!((&letters["groups"][0]["message"], &letters["groups"][0]["reason"]), (&json!("u32"), &json!("stopped")));
    let wrong = ask(&source, "failures", json!({ "kind": "rumours" })).await.unwrap_err();
    assert_eq!(wrong.code, "bad_request");
}

#[tokio::test]
async fn k6_story_is_read_in_pages_without_gap_or_duplicate() {
    let (system, source) = shop();
    let tills = system.supervisor("tills", pleach::supervise::AlwaysRestart).unwrap();
    let cash = tills.spawn_started("cash", till()).await.unwrap();
    ask(&source, "story", json!({})).await.unwrap();
    for _ in 0..40 {
        cash.tell(0).unwrap();
    }
    let all = until(&source, "story", json!({ "limit": 200 }), |story| kinds(story).len() == 120).await;
    let (mut before, mut found) = (Value::Null, Vec::new());
    loop {
        let page = ask(&source, "story", json!({ "limit": 7, "before": before })).await.unwrap();
        found.extend(numbers(&page));
        before = page["next"].clone();
        if before.is_null() {
            break;
        }
    }
    assert_eq!(found, numbers(&all));
    assert!(found.windows(2).all(|pair| pair[0] == pair[1] + 1), "{found:?}");
}

#[tokio::test]
async fn k6_lost_connection_is_a_gap_that_names_what_is_known() {
    let folder = Folder::new();
    let system = folder.system();
    let tills = system.supervisor("tills", pleach::supervise::AlwaysRestart).unwrap();
    let cash = tills.spawn_started("cash", till()).await.unwrap();
    let proxy = folder.proxy();
    let source = ProcessSource::of_socket("p0", proxy.path.clone());
    ask(&source, "story", json!({})).await.unwrap();
    cash.tell(0).unwrap();
    let before = until(&source, "story", json!({}), has_restarted).await;
    drop(proxy);
    // The member cannot be asked any more; what was heard stays.
    let gone = async { while ask(&source, "member", json!({ "path": "/user/tills/cash" })).await.is_ok() {} };
    gone.await;
    cash.tell(0).unwrap();
    while cash.counts().failed < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&source, "story", json!({})).await.unwrap(), before);
    let _proxy = folder.proxy();
    let after = until(&source, "story", json!({}), |story| kinds(story).contains(&"gap")).await;
    assert_eq!(kinds(&after)[..2], ["failed", "gap"], "{after:#}");
    assert_eq!(&after["entries"].as_array().unwrap()[2..], before["entries"].as_array().unwrap());
    let text = after["entries"][1]["text"].as_str().unwrap();
    assert!(text.contains("the same process answers again"), "{text}");
    assert!(numbers(&after).is_sorted_by(|one, other| one > other));
}

#[tokio::test]
async fn k6_process_that_ended_is_unreachable_and_its_story_stays() {
    let folder = Folder::new();
    let system = folder.system();
    let cash = system.spawn_started("cash", till().restart(RestartPolicy::Temporary)).await.unwrap();
    let source = ProcessSource::of_socket("p0", folder.socket());
    let never = ProcessSource::of_socket("p0", folder.socket().with_extension("none"));
    ask(&source, "story", json!({})).await.unwrap();
    cash.tell(0).unwrap();
    let failed = |story: &Value| kinds(story).contains(&"ended");
    until(&source, "story", json!({ "path": "/user/cash" }), failed).await;
    system.shutdown(Duration::from_secs(10)).await.unwrap();
    drop(system);
    assert_eq!(ask(&source, "member", json!({ "path": "/user/cash" })).await.unwrap_err().code, "unreachable");
    let story = ask(&source, "story", json!({ "path": "/user/cash" })).await.unwrap();
    assert!(kinds(&story).contains(&"failed"), "{story:#}");
    // A process that never answered has no empty story.
    assert_eq!(ask(&never, "story", json!({})).await.unwrap_err().code, "unreachable");
}

#[tokio::test(start_paused = true)]
async fn k2_nothing_is_connected_when_nobody_has_asked_for_long() {
    let (system, source) = shop();
    assert_eq!(clients(&system), 0);
    ask(&source, "story", json!({})).await.unwrap();
    assert_eq!(clients(&system), 1, "it listens, and asks only for the story");
    tokio::time::sleep(KEPT_FOR / 2).await;
    ask(&source, "story", json!({})).await.unwrap();
    tokio::time::sleep(KEPT_FOR / 2 + Duration::from_secs(1)).await;
    assert_eq!(clients(&system), 1, "somebody has asked");
    tokio::time::sleep(KEPT_FOR).await;
    assert_eq!(clients(&system), 0);
    ask(&source, "story", json!({})).await.unwrap();
    assert_eq!(clients(&system), 1, "it begins again");
}

#[tokio::test(start_paused = true)]
async fn k6_process_that_does_not_answer_is_unreachable_in_time() {
    let folder = Folder::new();
    let listener = tokio::net::UnixListener::bind(folder.socket()).unwrap();
    let source = ProcessSource::of_socket("p0", folder.socket());
    for view in ["story", "failures", "member"] {
        let answer = ask(&source, view, json!({ "path": "/" }));
        let parameters = if view == "failures" { json!({}) } else { json!({ "path": "/" }) };
        drop(answer);
        let failure = ask(&source, view, parameters).await.unwrap_err();
        assert_eq!(failure.code, "unreachable", "{view}: {failure}");
    }
    drop(listener);
}

#[tokio::test]
async fn k6_hostile_texts_are_bounded_and_stay_text() {
    let (system, source) = shop();
    let tills = system.supervisor("tills", pleach::supervise::AlwaysRestart).unwrap();
    let text = format!("\u{1b}[31m<script>\0\u{202e}{}", "\u{1F4A5}".repeat(100_000));
    let props = Props::from_fn(|| (), move |(), _: u32| Err::<(), String>(text.clone()));
    let cash = tills.spawn_started("<b>&\u{202e}", props).await.unwrap();
    ask(&source, "story", json!({})).await.unwrap();
    for _ in 0..30 {
        cash.tell(0).unwrap();
    }
    until(&source, "failures", json!({}), |groups| groups["groups"][0]["count"] == 30).await;
    let story = ask(&source, "story", json!({ "limit": 200 })).await.unwrap();
    let len = story.to_string().len();
    assert!(len < 64 * 1024 && !story["next"].is_null(), "{len} bytes");
    let reason = story["entries"].as_array().unwrap().iter().find_map(|entry| entry["failure"]["reason"].as_str()).unwrap();
    assert!(reason.starts_with("\u{1b}[31m<script>\0\u{202e}") && reason.chars().count() < 2_100);
    let groups = ask(&source, "failures", json!({ "limit": 200 })).await.unwrap();
    assert!(groups.to_string().len() < 64 * 1024);
}

#[tokio::test]
async fn k2_ten_thousand_children_have_bounded_answers() {
    let (system, source) = shop();
    let crowd = system.supervisor("crowd", OneForAll::new().restart_limit(0, Duration::from_secs(5))).unwrap();
    let first = crowd.spawn_started("first", till()).await.unwrap();
    for number in 1..10_000 {
        crowd.spawn(&format!("n{number}"), till()).unwrap();
    }
    let member = ask(&source, "member", json!({ "path": "/user/crowd" })).await.unwrap();
    let ledger = &member["ledger"];
    assert_eq!((&ledger["members"], &ledger["difference"], &ledger["is_complete"]), (&json!(10_000), &json!(0), &json!(true)));
    ask(&source, "story", json!({})).await.unwrap();
    first.tell(0).unwrap();
    let story = until(&source, "story", json!({ "path": "/user/crowd/first" }), |of| kinds(of).contains(&"gave_up")).await;
    let decided = story["entries"].as_array().unwrap().iter().find(|of| of["decision"]["supervisor"] == "/user/crowd").unwrap();
    assert_eq!(decided["decision"]["also"].as_array().unwrap().len(), 32);
    assert_eq!(decided["decision"]["also_left_out"], 9_999 - 32);
    // All children end: more than are kept or heard in time. Nothing is lost in silence.
    let is_counted = |story: &Value| story["missed"].as_u64().unwrap_or(0) + 1_024 + 8 > 9_999;
    let story = until(&source, "story", json!({ "limit": 200 }), is_counted).await;
    assert!(kinds(&story).len() <= 200);
}

#[tokio::test(start_paused = true)]
async fn k2_ring_takes_a_point_a_second_while_somebody_looks() {
    let (system, source) = shop();
    let cash = system.spawn_started("cash", till()).await.unwrap();
    let at = json!({ "path": "/user/cash" });
    assert_eq!(ask(&source, "ring", at.clone()).await.unwrap()["points"].as_array().unwrap().len(), 1);
    for _ in 0..10 {
        cash.tell(1).unwrap();
    }
    while cash.counts().handled < 10 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let ring = ask(&source, "ring", at.clone()).await.unwrap();
    assert_eq!((&ring["every_ms"], &ring["points"][1]["handled_per_s"]), (&json!(1_000), &json!(5.0)));
    assert_eq!(ask(&source, "ring", at.clone()).await.unwrap()["points"].as_array().unwrap().len(), 2, "no time has passed");
    for _ in 0..400 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        ask(&source, "ring", at.clone()).await.unwrap();
    }
    assert_eq!(ask(&source, "ring", at).await.unwrap()["points"].as_array().unwrap().len(), 300);
    let guardian = ask(&source, "ring", json!({ "path": "/user" })).await.unwrap_err();
    assert_eq!(guardian.code, "not_possible");
}
