//! C10: errors of a server that rejects the login, and connections with TLS. These tests start
//! their own server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::own_server::OwnServer;
use crate::common::postgres::connect;
use pleach_graph::store::{PostgresStore, StoreError};
use pleach_graph::{END, Graph};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const ROLES: &str = "
    CREATE ROLE with_password LOGIN PASSWORD 'right';
    CREATE ROLE only_tls LOGIN SUPERUSER PASSWORD 'right';
    CREATE ROLE unprivileged LOGIN;
    CREATE ROLE unconnectable LOGIN CONNECTION LIMIT 0;
    REVOKE CREATE ON SCHEMA public FROM PUBLIC;
";

/// The error text, after a check that it contains no secret.
fn checked_text(error: &StoreError) -> String {
    let all = format!("{error} {error:?}");
    assert!(!all.contains("wrong") && !all.contains("right"), "a password is shown: {all}");
    assert!(!all.contains("db error"), "{all}");
    error.to_string()
}

async fn connect_error(url: &str) -> (StoreError, String) {
    let error = PostgresStore::connect(url).await.unwrap_err();
    let text = checked_text(&error);
    (error, text)
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

#[tokio::test]
async fn c10_rejected_logins_say_what_to_change() {
    let server = OwnServer::start();
    connect(&server.url("admin", "127.0.0.1", "postgres")).await.batch_execute(ROLES).await.unwrap();
    let unusable: [(&str, &str, &[&str]); 6] = [
        (
            "with_password:wrong",
            "postgres",
            &["28P01", "password authentication failed", "with_password", "check the user name and the password"],
        ),
        ("without_role", "postgres", &["28000", "\"without_role\" does not exist", "check that the role exists"]),
        ("stranger", "postgres", &["28000", "pg_hba.conf"]),
        ("admin", "none", &["3D000", "\"none\" does not exist", "create it"]),
        ("unprivileged", "postgres", &["42501", "permission denied", "grant the role"]),
        ("only_tls:right", "postgres", &["28000", "no encryption", "postgres-tls", "sslmode=require"]),
    ];
    for (login, database, parts) in unusable {
        let (error, text) = connect_error(&server.url(login, "127.0.0.1", database)).await;
        assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
        assert_has(&text, parts);
    }
    let (error, text) = connect_error(&server.url("unconnectable", "127.0.0.1", "postgres")).await;
    assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
    assert_has(&text, &["53300", "max_connections"]);
    // A missing password is detected before anything is sent.
    let (error, text) = connect_error(&server.url("with_password", "127.0.0.1", "postgres")).await;
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
    assert_has(&text, &["password"]);
}

/// A server that rejects every connection with this code.
async fn rejecting_server(code: &'static str, message: &'static str) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut first = [0; 512];
            let _ = client.read(&mut first).await;
            let fields = format!("SFATAL\0VFATAL\0C{code}\0M{message}\0\0");
            let mut answer = vec![b'E'];
            answer.extend((fields.len() as u32 + 4).to_be_bytes());
            answer.extend(fields.as_bytes());
            let _ = client.write_all(&answer).await;
        }
    });
    format!("postgres://app:wrong@127.0.0.1:{port}/app?sslmode=disable")
}

#[tokio::test]
async fn c10_servers_that_cannot_answer_now_are_unreachable() {
    let cases = [
        ("57P03", "the database system is starting up", "try again soon"),
        ("53300", "sorry, too many clients already", "lower the pool size"),
    ];
    for (code, message, advice) in cases {
        let (error, text) = connect_error(&rejecting_server(code, message).await).await;
        assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
        assert_has(&text, &[code, message, advice, "nothing was changed"]);
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (error, text) = connect_error(&format!("postgres://app:wrong@127.0.0.1:{port}/app")).await;
    assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
    assert_has(&text, &["Connection refused", &format!("127.0.0.1:{port}"), "check host and port"]);
}

#[tokio::test]
async fn c10_wrong_options_are_rejected_before_connecting() {
    let url = "postgres://app:wrong@127.0.0.1:1/app";
    let unusable = async |builder: pleach_graph::store::PostgresBuilder, part: &str| {
        let error = builder.connect().await.unwrap_err();
        assert!(matches!(error, StoreError::Unusable { .. }) && checked_text(&error).contains(part), "{error:?}");
    };
    unusable(PostgresStore::builder(url).pool_size(0), "pool size is 0").await;
    for connections in [usize::MAX, usize::MAX - 1, 262_144] {
        unusable(PostgresStore::builder(url).pool_size(connections), "at most 262143").await;
    }
    unusable(PostgresStore::builder(url).answer_timeout(Duration::ZERO), "timeout of 0").await;
    unusable(PostgresStore::builder(url).connect_timeout(Duration::ZERO), "timeout of 0").await;
    unusable(PostgresStore::builder("postgres://app:wrong@host:port/app"), "postgres://user:password@host:port/database").await;
    assert!(!format!("{:?}", PostgresStore::builder(url)).contains("wrong"));
    #[cfg(not(feature = "postgres-tls"))]
    unusable(PostgresStore::builder(&format!("{url}?sslmode=require")), "postgres-tls").await;
}

/// The error must not suggest to attach to a run that cannot exist.
#[tokio::test]
async fn c10_error_of_a_failed_creation_does_not_suggest_attach() {
    let server = OwnServer::start();
    let store = PostgresStore::connect(&server.url("admin", "127.0.0.1", "postgres")).await.unwrap();
    let graph = Graph::<u32>::new("one")
        .add_node("one", |n: u32| async move { Ok::<_, String>(n) })
        .add_edge("one", END)
        .set_entry("one")
        .compile()
        .unwrap();
    graph.run(1).id("made").checkpoint(&store).await.unwrap();
    drop(server);
    // Open connections fail first.
    for _ in 0..20 {
        let error = graph.run(1).id("not made").checkpoint(&store).await.unwrap_err().to_string();
        if error.contains("Connection refused") {
            assert!(!error.contains("attach") && error.contains("the run was not created"), "{error}");
            return;
        }
    }
    panic!("the server is gone, but connections are not rejected");
}

#[cfg(feature = "postgres-tls")]
mod tls {
    use super::{OwnServer, ROLES, TcpListener, assert_has, checked_text, connect};
    use crate::common::{check_hints_of_new_runs, create_held, lease, ready};
    use pleach_graph::store::{PostgresStore, PostgresTls, Store, StoreError};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn c10_tls_is_used_and_verified() {
        let server = OwnServer::start();
        let admin = connect(&server.url("admin", "127.0.0.1", "postgres")).await;
        admin.batch_execute(ROLES).await.unwrap();
        let url = server.url("only_tls:right", "localhost", "postgres");
        let tls = || PostgresTls::roots_pem(server.certificate.as_str());
        let here = PostgresStore::builder(&url).tls(tls()).connect().await.unwrap();
        let there = PostgresStore::builder(&url).tls(tls()).connect().await.unwrap();
        create_held(&here, "r").await;
        let encrypted = "SELECT bool_and(s.ssl), count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'only_tls'";
        let row_of = admin.query_one(encrypted, &[]).await.unwrap();
        assert!(row_of.get::<_, bool>(0) && row_of.get::<_, i64>(1) >= 2);
        // The listener uses TLS, too.
        check_hints_of_new_runs(&here, &there).await;
        assert_eq!(there.claim(ready(1), lease("bob")).await.unwrap().len(), 1);
    }

    /// The server may be restarting, so a run must not end because of this.
    #[tokio::test]
    async fn c10_server_that_closes_during_the_tls_handshake_is_unreachable() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut request = [0; 8];
                client.read_exact(&mut request).await.unwrap();
                client.write_all(b"S").await.unwrap();
            }
        });
        let root = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap().cert.pem();
        let url = format!("postgres://app:wrong@localhost:{port}/app?hostaddr=127.0.0.1");
        let error = PostgresStore::builder(&url).tls(PostgresTls::roots_pem(root)).connect().await.unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
        assert_has(&checked_text(&error), &["TLS", "nothing was changed"]);
    }

    #[tokio::test]
    async fn c10_tls_rejects_what_it_cannot_verify() {
        let server = OwnServer::start();
        let admin = connect(&server.url("admin", "127.0.0.1", "postgres")).await;
        admin.batch_execute(ROLES).await.unwrap();
        let url = server.url("only_tls:right", "localhost", "postgres");
        let other = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap().cert.pem();
        let by_address = server.url("only_tls:right", "127.0.0.1", "postgres");
        let cases = [
            (PostgresStore::builder(&url).tls(PostgresTls::roots_pem(other)), "certificate"),
            (PostgresStore::builder(&by_address).tls(PostgresTls::roots_pem(server.certificate.as_str())), "certificate"),
            (PostgresStore::builder(&url).tls(PostgresTls::roots_pem("nothing")), "contain no certificate"),
            // The system does not know this root.
            (PostgresStore::builder(&format!("{url}?sslmode=require")), "certificate"),
        ];
        for (builder, part) in cases {
            let error = builder.connect().await.unwrap_err();
            assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
            assert_has(&checked_text(&error), &[part]);
        }
    }
}
