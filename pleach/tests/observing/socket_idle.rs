//! O1: a silent client of the inspection socket does not keep its place for ever.

use crate::socket_folder::Folder;
use pleach::inspect::{Client, ClientError, InspectOptions, TopRequest};
use pleach::prelude::*;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

fn system(folder: &Folder, options: impl FnOnce(InspectOptions) -> InspectOptions) -> ActorSystem {
    ActorSystem::builder("shop").inspect(options(InspectOptions::at(folder.socket()))).build().unwrap()
}

/// Reads until the server closes the connection. Returns its last line.
async fn last_line(stream: UnixStream) -> (String, Duration) {
    let began = tokio::time::Instant::now();
    let (mut lines, mut last) = (BufReader::new(stream).lines(), String::new());
    while let Some(line) = lines.next_line().await.unwrap() {
        last = line;
    }
    (last, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn o1_silent_client_is_closed_and_its_place_is_free() {
    let folder = Folder::new();
    let _system = system(&folder, |options| options.connections_max(1));
    let silent = UnixStream::connect(folder.socket()).await.unwrap();
    let (last, waited) = last_line(silent).await;
    assert!(last.contains("\"code\":\"idle\"") && last.contains("Send `hello`"), "{last}");
    assert!((minutes(10)..minutes(11)).contains(&waited), "{waited:?}");
    let client = folder.client().await;
    assert_eq!((client.hello().stats.idle, client.hello().stats.connections), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn o1_half_a_request_is_silence() {
    let folder = Folder::new();
    let _system = system(&folder, |options| options.idle_timeout(minutes(3)));
    let mut dripping = UnixStream::connect(folder.socket()).await.unwrap();
    for byte in b"{\"i" {
        dripping.write_all(&[*byte]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(40)).await;
    }
    let (last, waited) = last_line(dripping).await;
    assert!(last.contains("\"code\":\"idle\"") && waited <= minutes(1), "{last} after {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn o1_hello_and_following_keep_a_connection() {
    let folder = Folder::new();
    let system = system(&folder, |options| options.idle_timeout(minutes(10)));
    let (mut asking, mut following) = (folder.client().await, folder.client().await);
    following.follow(Some(&["lifecycle"])).await.unwrap();
    for _ in 0..10 {
        tokio::time::sleep(minutes(9)).await;
        asking.refresh_hello().await.unwrap();
    }
    system.spawn("new", Props::from_fn(|| (), |(), ()| Ok::<(), pleach::BoxError>(()))).unwrap();
    following.next_event().await.unwrap();
    // A request that came in two parts is read as one, whatever limits have passed in between.
    following.health().await.unwrap();
    // Once it follows nothing, it is like any other.
    following.unfollow().await.unwrap();
    tokio::time::sleep(minutes(11)).await;
    let closed = following.top(TopRequest::default()).await.unwrap_err();
    assert!(matches!(&closed, ClientError::Refused(failure) if failure.code == "idle") || matches!(closed, ClientError::Io(_)));
}

#[tokio::test(start_paused = true)]
async fn o1_request_of_a_follower_may_come_in_parts() {
    let folder = Folder::new();
    let _system = system(&folder, |options| options.idle_timeout(minutes(1)));
    let (reader, mut writer) = UnixStream::connect(folder.socket()).await.unwrap().into_split();
    let mut lines = BufReader::new(reader).lines();
    lines.next_line().await.unwrap();
    writer.write_all(b"{\"id\":1,\"op\":\"follow\"}\n{\"id\":2,").await.unwrap();
    assert!(lines.next_line().await.unwrap().unwrap().starts_with("{\"id\":1,\"ok\""));
    tokio::time::sleep(minutes(5)).await;
    writer.write_all(b"\"op\":\"unfollow\"}\n").await.unwrap();
    assert!(lines.next_line().await.unwrap().unwrap().starts_with("{\"id\":2,\"ok\""));
}

#[tokio::test(start_paused = true)]
async fn o1_client_without_a_limit_stays() {
    let folder = Folder::new();
    let _system = system(&folder, |options| options.idle_timeout(Duration::MAX));
    let mut client: Client = folder.client().await;
    tokio::time::sleep(minutes(60 * 24)).await;
    client.health().await.unwrap();
}
