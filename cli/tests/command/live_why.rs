//! `why` on a system in this process: chains, cycles, full mailboxes, what has ended.

use crate::process::{Job, Process, until, worker};
use pleach::inspect::{Activity, InspectAction};
use pleach::prelude::*;
use pleach::supervise::ExponentialBackoff;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Returns the sentences with this label.
fn sentences<'a>(out: &'a str, label: &str) -> Vec<&'a str> {
    out.lines().filter_map(|line| line.strip_prefix(&format!("{label}:"))).map(str::trim).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn why_names_the_deepest_cause_first() {
    let process = Process::start([]);
    let gate = process.chain().await;
    let (till, clerk) =
        (process.system.root().lookup::<Job>(&"/user/till".parse().unwrap()).unwrap(), process.spawn("clerk").await);
    clerk.tell(Job::Ask(till.clone(), Duration::from_secs(60))).unwrap();
    until(|| clerk.any().info().waits.len() == 1).await;
    till.tell(Job::Note).unwrap();
    let why = process.call("why", &["/user/shop"]);
    assert_eq!(why.code, 0, "{why:?}");
    let cause = sentences(&why.out, "cause");
    assert!(cause[0].starts_with("/user/bank has been handling ") && cause[0].contains("Job for at least "), "{why:?}");
    assert!(!cause[0].contains("for at least 0 ms"), "the command looks twice: {why:?}");
    let so = sentences(&why.out, "so");
    assert!(so[0].starts_with("/user/till waits for the answer of /user/bank (ask, "), "{why:?}");
    assert!(so[1].starts_with("/user/shop waits for the answer of /user/till (ask, "), "{why:?}");
    assert!(so.contains(&"3 messages wait in /user/till"), "{why:?}");
    assert!(so.contains(&"/user/clerk waits for /user/till too"), "{why:?}");
    assert!(sentences(&why.out, "do")[0].contains("the handler of /user/bank"), "{why:?}");
    let json = process.json("why", &["/user/shop"]);
    assert_eq!((&json["version"], json["chain"].as_array().unwrap().len()), (&1.into(), 3));
    assert_eq!(json["waiters"][0]["path"], "/user/clerk");
    assert!(json["do"][0].as_str().unwrap().contains("/user/bank"), "{json}");
    gate.add_permits(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn why_names_every_member_of_a_cycle() {
    let process = Process::start([]);
    let (a, b, c) = (process.spawn("a").await, process.spawn("b").await, process.spawn("c").await);
    let gate = Arc::new(Semaphore::new(0));
    for (from, to) in [(&a, &b), (&b, &a), (&c, &a)] {
        from.tell(Job::WaitAndAsk(Arc::clone(&gate), to.clone())).unwrap();
    }
    // None of them answers before it asks.
    until(|| [&a, &b, &c].iter().all(|actor| actor.any().info().handling_for().is_some())).await;
    gate.add_permits(3);
    until(|| [&a, &b, &c].iter().all(|actor| actor.any().info().waits.len() == 1)).await;
    let why = process.call("why", &["/user/c"]);
    assert_eq!(
        sentences(&why.out, "cause"),
        ["/user/a and /user/b wait for each other in a cycle, so none can continue"],
        "{why:?}"
    );
    let so = sentences(&why.out, "so");
    assert!(so[0].starts_with("/user/a waits for the answer of /user/b"), "{why:?}");
    assert!(so[1].starts_with("/user/b waits for the answer of /user/a"), "{why:?}");
    assert!(so[2].starts_with("/user/c waits for the answer of /user/a"), "{why:?}");
    assert!(sentences(&why.out, "do")[0].contains("without asking back"), "{why:?}");
    assert_eq!(process.json("why", &["/user/a"])["is_cycle"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn why_says_who_sends_to_a_full_mailbox() {
    let process = Process::start([]);
    let gate = Arc::new(Semaphore::new(0));
    let small = process.system.spawn_started("small", worker().mailbox(Mailbox::bounded(1))).await.unwrap();
    small.tell(Job::Wait(Arc::clone(&gate))).unwrap();
    until(|| small.any().info().handling_for().is_some()).await;
    small.tell(Job::Note).unwrap();
    let (first, second) = (process.spawn("first").await, process.spawn("second").await);
    first.tell(Job::Send(small.clone())).unwrap();
    until(|| first.any().info().waits.len() == 1).await;
    second.tell(Job::Send(small)).unwrap();
    until(|| second.any().info().waits.len() == 1).await;
    let why = process.call("why", &["/user/first"]);
    let so = sentences(&why.out, "so");
    assert!(so[0].starts_with("/user/first waits for room in the mailbox of /user/small (send, "), "{why:?}");
    assert!(so.contains(&"the mailbox of /user/small is full: 1 messages wait"), "{why:?}");
    assert!(so.contains(&"2 sends wait for room in the mailbox of /user/small"), "{why:?}");
    assert!(so.contains(&"/user/second waits for /user/small too"), "{why:?}");
    gate.add_permits(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn why_explains_members_that_are_gone() {
    let process = Process::start([]);
    process.give_up().await;
    let why = process.call("why", &["/user/workers/printer"]);
    assert_eq!(why.code, 0, "{why:?}");
    let cause = sentences(&why.out, "cause");
    assert!(cause[0].starts_with("supervisor /user/workers gave up on /user/workers/printer"), "{why:?}");
    assert_eq!(sentences(&why.out, "so"), ["no member runs at /user/workers/printer"], "{why:?}");
    let above = process.call("why", &["/user/workers"]);
    assert!(sentences(&above.out, "cause")[0].starts_with("supervisor /user/workers gave up"), "{above:?}");
    let top = process.call("why", &["/"]);
    assert!(sentences(&top.out, "cause")[0].starts_with("supervisor /user/workers gave up"), "{top:?}");
    let unknown = process.call("why", &["/user/nosuch"]);
    assert!(unknown.code == 3 && unknown.err.contains("no member found at /user/nosuch"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_explains_a_pool_that_gave_up() {
    let process = Process::start([]);
    let pool = process.system.pool("printers", 2, |_| worker()).build().unwrap();
    let first = pool.workers()[0].clone();
    for _ in 0..4 {
        drop(first.tell(Job::Fail("no paper")));
    }
    until(|| pool.any().info().children < 2).await;
    let why = process.call("why", &["/user/printers"]);
    let cause = sentences(&why.out, "cause").join("\n");
    assert!(cause.contains("/user/printers gave up on /user/printers/") && cause.contains("has 1 of 2 workers"), "{why:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_tells_a_suspended_actor_from_a_failed_and_an_idle_one() {
    let process = Process::start([InspectAction::Resume]);
    let till = process.spawn("till").await;
    let idle = process.call("why", &["/user/till"]);
    assert_eq!(sentences(&idle.out, "cause"), ["/user/till is idle: its mailbox is empty"], "{idle:?}");
    till.any().suspend().unwrap();
    until(|| till.any().activity() == Activity::Suspended).await;
    till.tell(Job::Note).unwrap();
    let why = process.call("why", &["/user/till"]);
    assert!(sentences(&why.out, "cause")[0].starts_with("/user/till is suspended"), "{why:?}");
    assert_eq!(sentences(&why.out, "so"), ["1 message waits in /user/till"], "{why:?}");
    assert_eq!(sentences(&why.out, "do"), [format!("resume it: pleach resume {} /user/till", process.socket)], "{why:?}");
    let props = worker().restart(RestartPolicy::Permanent);
    let strategy = OneForOne::new().backoff(ExponentialBackoff::new(Duration::from_secs(600), Duration::from_secs(600)));
    let failing = process.system.supervisor("w", strategy).unwrap().spawn_started("f", props).await.unwrap();
    failing.tell(Job::Fail("no ink")).unwrap();
    until(|| matches!(failing.any().activity(), Activity::WaitingToRestart { .. })).await;
    let why = process.call("why", &["/user/w/f"]);
    assert!(sentences(&why.out, "cause")[0].starts_with("/user/w/f has failed and starts again in "), "{why:?}");
    let notes = sentences(&why.out, "note").join("\n");
    assert!(notes.contains("no ink (handling ") && notes.contains("1 of 3 restarts in 5.0s"), "{why:?}");
}

/// Nothing has looked at the process before, so the command looks twice.
#[tokio::test(flavor = "multi_thread")]
async fn why_of_the_whole_process_separates_causes_from_what_follows() {
    let process = Process::start([]);
    let gate = process.chain().await;
    let (a, b, asks) = (process.spawn("a").await, process.spawn("b").await, Arc::new(Semaphore::new(0)));
    for (from, to) in [(&a, &b), (&b, &a)] {
        from.tell(Job::WaitAndAsk(Arc::clone(&asks), to.clone())).unwrap();
    }
    until(|| [&a, &b].iter().all(|actor| actor.any().info().handling_for().is_some())).await;
    asks.add_permits(2);
    until(|| [&a, &b].iter().all(|actor| actor.any().info().waits.len() == 1)).await;
    process.spawn("fine").await;
    let why = process.call("why", &["/"]);
    let cause = sentences(&why.out, "cause");
    assert_eq!(cause.len(), 2, "{why:?}");
    assert!(cause[0].starts_with("/user/bank (actor) handling "), "{why:?}");
    assert_eq!(cause[1], "/user/a and /user/b wait for each other in a cycle, so none can continue");
    let so = sentences(&why.out, "so");
    assert!(so[0].starts_with("/user/till waits for the answer of /user/bank (ask, "), "{why:?}");
    assert!(so.len() == 2 && so[1].starts_with("/user/shop waits for the answer of /user/till"), "{why:?}");
    let tree = process.call("tree", &["--not-well", "--jq", "[.members[].path] | tojson"]);
    assert_eq!(tree.out, "[\"/user/bank\",\"/user/till\",\"/user/shop\",\"/user/a\",\"/user/b\"]\n");
    gate.add_permits(1);
}
