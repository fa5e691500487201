//! Tests of a whole console: what the builder was told is what a browser is shown.

use crate::{Colour, Console, ConsoleBuilder, ConsoleError};
use pleach::inspect::{InspectAction, InspectBuilder as _, InspectOptions, Inspector};
use pleach::prelude::*;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Serves a console, asks it one thing after the other, and ends it.
async fn ask(builder: ConsoleBuilder, paths: &[&str]) -> Vec<Value> {
    let console = builder.serve("127.0.0.1:0").await.unwrap();
    let (host, token) = (console.addr(), console.url().split_once("#token=").unwrap().1.to_string());
    assert_eq!(console.url(), format!("http://{host}/#token={token}"));
    assert!(console.url().len() < 80, "a terminal of 80 columns shows it on one line");
    let mut answers = Vec::new();
    for path in paths {
        let mut connection = TcpStream::connect(host).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answers.push(serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap());
    }
    console.shutdown().await;
    assert!(TcpStream::connect(host).await.is_err(), "nobody listens after the shutdown");
    answers
}

const MEMBER: &str = "/api/view?q=%7B%22view%22%3A%22member%22%2C%22process%22%3A%22p0%22%2C%22path%22%3A%22%2Fuser%22%7D";

#[tokio::test]
async fn k1_sources_have_keys_in_the_order_of_the_builder() {
    let (shop, bank) = (ActorSystem::new("shop").unwrap(), ActorSystem::new("bank").unwrap());
    let store = MemoryStore::new();
    let inspector = Inspector::new(&bank, InspectOptions::in_memory());
    let builder = Console::builder().store(&store).system(&shop).inspector(inspector).socket("/nowhere/pleach.sock");
    let builder = builder.store_named("orders", &store).environment("staging", Colour::Amber).user("ada");
    let console = ask(builder, &[MEMBER, "/api/console"]).await.remove(1);
    let keys = |kind: &str| console[kind].as_array().unwrap().iter().map(|source| source["key"].clone()).collect::<Vec<_>>();
    assert_eq!(
        (keys("processes"), keys("stores")),
        (vec!["p0".into(), "p1".into(), "p2".into()], vec!["s0".into(), "s1".into()])
    );
    assert_eq!(console["processes"][0]["name"], "shop");
    assert_eq!((&console["name"], &console["user"]), (&"shop".into(), &"ada".into()), "the first source names the console");
    assert_eq!(console["stores"][0]["name"], "memory");
    assert_eq!(console["stores"][1]["name"], "orders");
    assert_eq!(console["environment"], serde_json::json!({ "name": "staging", "colour": "amber" }));
}

const DEPLOY: &str = "/api/view?q=%7B%22view%22%3A%22deploy%22%2C%22store%22%3A%22s0%22%7D";

#[tokio::test]
async fn k3_exported_graphs_of_the_program_are_checked_without_a_file() {
    let graph = Graph::<u32>::new("adding").add_node("one", |n: u32| async move { n + 1 }).add_edge("one", END);
    let export = graph.set_entry("one").compile().unwrap().export();
    let store = MemoryStore::new();
    let with = ask(Console::builder().graphs([export]).store(&store), &["/api/console", DEPLOY]).await;
    assert_eq!((&with[0]["stores"][0]["graphs"], &with[1]["unserved"]), (&1.into(), &0.into()));
    let without = ask(Console::builder().store(&store), &["/api/console", DEPLOY]).await;
    assert_eq!(without[0]["stores"][0]["graphs"], 0);
    assert_eq!(without[1]["error"]["code"], "bad_request");
}

#[tokio::test]
async fn k4_a_system_allows_actions_only_if_the_console_does() {
    let system = ActorSystem::new("shop").unwrap();
    let actions = async |builder: ConsoleBuilder| {
        let console = ask(builder, &[MEMBER, "/api/console"]).await.remove(1);
        (console["is_read_only"].clone(), console["processes"][0]["actions"].as_array().unwrap().len())
    };
    assert_eq!(actions(Console::builder().system(&system)).await, (true.into(), 0));
    // The order of the calls makes no difference.
    assert_eq!(actions(Console::builder().system(&system).allow_actions()).await, (false.into(), 4));
    assert_eq!(actions(Console::builder().allow_actions().system(&system)).await, (false.into(), 4));
    let options = InspectOptions::in_memory().allow([InspectAction::Restart]);
    let inspector = Inspector::new(&system, options);
    assert_eq!(actions(Console::builder().inspector(inspector).allow_actions()).await, (false.into(), 1));
}

#[tokio::test]
async fn k1_a_process_behind_a_socket_may_start_later() {
    let folder = std::env::temp_dir().join(format!("pleach-console-later-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("shop.sock");
    let before = ask(Console::builder().socket(&socket), &[MEMBER]).await.remove(0);
    assert_eq!(before["error"]["code"], "unreachable");
    let system = ActorSystem::builder("shop").inspect(socket.as_path()).build().unwrap();
    let after = ask(Console::builder().socket(&socket), &[MEMBER]).await.remove(0);
    assert_eq!(after["member"]["path"], "/user", "{after}");
    drop(system.shutdown(Duration::from_secs(5)).await);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn k1_a_console_that_cannot_start_says_why() {
    let empty = Console::builder().serve("127.0.0.1:0").await.unwrap_err();
    assert!(matches!(empty, ConsoleError::NothingToShow) && empty.to_string().contains("a system, a socket or a store"));
    let store = MemoryStore::new();
    let console = Console::builder().store(&store).serve("127.0.0.1:0").await.unwrap();
    let taken = Console::builder().store(&store).serve(console.addr()).await.unwrap_err();
    assert!(matches!(taken, ConsoleError::Listen { addr, .. } if addr == console.addr()), "{taken}");
    let nowhere = Console::builder().store(&store).serve("no such host:1").await.unwrap_err();
    assert!(matches!(nowhere, ConsoleError::NoAddress), "{nowhere}");
    let reachable = Console::builder().store(&store).serve("0.0.0.0:0").await.unwrap_err();
    assert!(matches!(reachable, ConsoleError::NotLoopback(_)), "{reachable}");
    console.shutdown().await;
}
