//! A garbage, slow or vanishing client of the inspection socket harms nothing.

use crate::common::{Job, Log, TestActor, quiet};
use crate::socket_folder::{Folder, path};
use pleach::inspect::{Client, ClientError, InspectOptions, REQUEST_LEN_MAX};
use pleach::prelude::*;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

async fn raw(socket: &Path) -> (Lines<BufReader<OwnedReadHalf>>, OwnedWriteHalf) {
    let (reader, writer) = UnixStream::connect(socket).await.unwrap().into_split();
    (BufReader::new(reader).lines(), writer)
}

async fn next(lines: &mut Lines<BufReader<OwnedReadHalf>>) -> Value {
    serde_json::from_str(&lines.next_line().await.unwrap().expect("a line")).unwrap()
}

#[tokio::test]
async fn o1_garbage_is_answered_with_an_error() {
    let folder = Folder::new();
    let _system = folder.system();
    let (mut lines, mut writer) = raw(&folder.socket()).await;
    assert_eq!(next(&mut lines).await["hello"]["name"], "shop");
    let garbage: [&[u8]; 9] = [
        b"\n",
        b"hello\n",
        b"{}\n",
        b"[1,2]\n",
        b"\xff\xfe\x00\n",
        b"{\"id\":1}\n",
        b"{\"id\":2,\"op\":\"dance\"}\n",
        b"{\"id\":3,\"op\":\"member\",\"path\":\"user\"}\n",
        b"{\"id\":4,\"op\":\"snapshot\",\"cursor\":\"c1:x\"}\n",
    ];
    for line in garbage {
        writer.write_all(line).await.unwrap();
        let answer = next(&mut lines).await;
        assert_eq!(answer["error"]["code"], "bad_request", "{answer}");
    }
    let deep = format!("{{\"id\":5,\"op\":\"health\",\"x\":{}1{}}}\n", "[".repeat(1_000), "]".repeat(1_000));
    writer.write_all(deep.as_bytes()).await.unwrap();
    assert_eq!(next(&mut lines).await["error"]["code"], "bad_request");
    // Unknown fields are ignored, and the connection still works. Requests may be sent ahead.
    writer.write_all(b"{\"id\":6,\"op\":\"health\",\"new\":1}\n{\"id\":7,\"op\":\"health\"}\n").await.unwrap();
    for id in [6, 7] {
        let answer = next(&mut lines).await;
        assert_eq!((&answer["id"], &answer["ok"]["status"]), (&id.into(), &"healthy".into()));
    }
}

#[tokio::test]
async fn o1_oversized_line_closes_the_connection() {
    let folder = Folder::new();
    let system = folder.system();
    let (mut lines, mut writer) = raw(&folder.socket()).await;
    next(&mut lines).await;
    let own = system.root().lookup_any(&path("/system/inspect/c1")).unwrap();
    // The server may close before it has read everything.
    drop(writer.write_all(&vec![b'x'; REQUEST_LEN_MAX + 1]).await);
    let answer = next(&mut lines).await;
    assert_eq!(answer["error"]["code"], "too_long");
    own.exited().await;
    // A line of the largest length is a request like any other.
    let mut client = folder.client().await;
    client.health().await.unwrap();
    assert_eq!(client.refresh_hello().await.unwrap().stats.connections, 1);
}

#[tokio::test]
async fn o1_slow_reader_is_closed_and_counted() {
    quiet();
    let folder = Folder::new();
    let options = InspectOptions::at(folder.socket()).write_timeout(Duration::from_millis(50));
    let system = ActorSystem::builder("shop").inspect(options).build().unwrap();
    for index in 0..2_000 {
        system.spawn(&format!("a{index}"), TestActor::props(&Log::new())).unwrap();
    }
    let (_unread, mut writer) = raw(&folder.socket()).await;
    // Far more answers than the buffers of a socket hold, and none of them is read.
    let request = b"{\"id\":1,\"op\":\"snapshot\",\"limit\":1000}\n".repeat(200);
    let asking = tokio::spawn(async move { drop(writer.write_all(&request).await) });
    let mut client = folder.client().await;
    while client.refresh_hello().await.unwrap().stats.too_slow == 0 {
        tokio::task::yield_now().await;
    }
    asking.await.unwrap();
    // The system and other clients work on.
    let actor = system.root().lookup::<Job>(&path("/user/a7")).unwrap();
    assert_eq!(actor.ask(|reply| Job::Answer(reply, 5)).await.unwrap(), 5);
    assert_eq!(client.refresh_hello().await.unwrap().stats.connections, 1);
}

#[tokio::test]
async fn o1_slow_follower_misses_events_and_learns_how_many() {
    quiet();
    let folder = Folder::new();
    let options = InspectOptions::at(folder.socket()).write_timeout(Duration::from_secs(60));
    let system = ActorSystem::builder("shop").inspect(options).build().unwrap();
    let strategy = |_: &FailureInfo| SupervisorDirective::Resume;
    let supervisor = system.supervisor("supervisor", strategy).unwrap();
    let actor = supervisor.spawn_started("actor", TestActor::props(&Log::new())).await.unwrap();
    let (mut lines, mut writer) = raw(&folder.socket()).await;
    next(&mut lines).await;
    writer.write_all(b"{\"id\":1,\"op\":\"follow\",\"kinds\":[\"failures\"]}\n").await.unwrap();
    assert_eq!(next(&mut lines).await["id"], 1);
    const EVENTS: u64 = 20_000;
    for _ in 0..EVENTS {
        actor.send(Job::Fail("no ink, no paper, no power, no printer, no office, no town, no country")).await.unwrap();
    }
    actor.ask(|reply| Job::Answer(reply, 1)).await.unwrap();
    // Now it reads: numbers go up, and each gap is as large as the server says.
    writer.write_all(b"{\"id\":2,\"op\":\"health\"}\n").await.unwrap();
    let (mut last, mut missed_all) = (0, 0);
    loop {
        let line = next(&mut lines).await;
        if line["id"] == 2 {
            break;
        }
        match (line["event"]["seq"].as_u64(), line["missed"].as_u64()) {
            (Some(seq), None) => {
                assert_eq!(seq, last + 1);
                last = seq;
            }
            (None, Some(missed)) => {
                missed_all += missed;
                last += missed;
            }
            other => panic!("{other:?} {line}"),
        }
    }
    assert_eq!(last, EVENTS, "every event was sent or counted");
    assert!(missed_all > 0);
}

#[tokio::test]
async fn o1_thousand_connections_are_bounded() {
    let folder = Folder::new();
    let system = folder.system();
    let mut streams = Vec::new();
    for _ in 0..1_000 {
        streams.push(UnixStream::connect(folder.socket()).await.unwrap());
    }
    let (mut served, mut refused) = (Vec::new(), 0);
    for mut stream in streams {
        let mut first = vec![0; 4_096];
        let len = stream.read(&mut first).await.unwrap();
        let line: Value = serde_json::from_slice(&first[..len]).unwrap();
        if line["error"]["code"] == "too_many_connections" {
            refused += 1;
        } else {
            assert_eq!(line["hello"]["name"], "shop");
            served.push(stream);
        }
    }
    assert_eq!((served.len(), refused), (32, 968));
    match Client::connect(folder.socket()).await {
        Err(ClientError::Refused(failure)) => assert_eq!(failure.code, "too_many_connections"),
        other => panic!("{other:?}"),
    }
    // Clients that vanish make room again.
    let own: Vec<_> = (1..=32).filter_map(|n| system.root().lookup_any(&path(&format!("/system/inspect/c{n}")))).collect();
    assert_eq!(own.len(), 32);
    drop(served);
    for connection in own {
        connection.exited().await;
    }
    let hello = folder.client().await.hello().clone();
    assert_eq!((hello.stats.connections, hello.stats.refused), (1, 969));
}

/// A client that vanishes in the middle of a request or of an answer.
#[tokio::test]
async fn o1_vanishing_clients_leave_nothing_behind() {
    let folder = Folder::new();
    let system = folder.system();
    for index in 0..500 {
        system.spawn(&format!("a{index}"), TestActor::props(&Log::new())).unwrap();
    }
    for sent in
        [&b"{\"id\":1,\"op\":\"snap"[..], b"{\"id\":1,\"op\":\"snapshot\",\"limit\":1000}\n", b"{\"id\":1,\"op\":\"follow\"}\n"]
    {
        for _ in 0..20 {
            let mut stream = UnixStream::connect(folder.socket()).await.unwrap();
            stream.write_all(sent).await.unwrap();
        }
    }
    let mut client = loop {
        if let Ok(client) = Client::connect(folder.socket()).await {
            break client;
        }
        tokio::task::yield_now().await;
    };
    while client.refresh_hello().await.unwrap().stats.connections > 1 {
        tokio::task::yield_now().await;
    }
    system.shutdown(Duration::from_secs(10)).await.unwrap();
    assert_eq!(system.counts().dead_lettered, 0, "events for a client that is gone are no dead letters");
}
