//! TLS, and addresses that other machines can reach.

use crate::{Console, ConsoleBuilder, ConsoleError};
use pleach::store::MemoryStore;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const NAME: &str = "console.example";

struct Certificate {
    pem: String,
    key: String,
    roots: RootCertStore,
}

fn certificate() -> Certificate {
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([NAME.to_string()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    Certificate { pem: cert.pem(), key: signing_key.serialize_pem(), roots }
}

fn console() -> ConsoleBuilder {
    Console::builder().store(&MemoryStore::new())
}

async fn answer(mut connection: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    let _ = connection.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn encrypted(addr: SocketAddr, roots: RootCertStore, request: &str) -> std::io::Result<String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", addr.port())).await?;
    let connection = TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(NAME).unwrap(), stream).await?;
    Ok(answer(connection, request).await)
}

#[tokio::test]
async fn k7_an_address_for_other_machines_needs_tls_and_a_name() {
    let Certificate { pem, key, .. } = certificate();
    let refused = console().serve("0.0.0.0:0").await.unwrap_err();
    assert!(matches!(refused, ConsoleError::NotLoopback(_)), "{refused}");
    assert!(refused.to_string().contains("ssh -L") && refused.to_string().contains("`tls`"), "{refused}");
    let refused = console().host(NAME).serve("[::]:0").await.unwrap_err();
    assert!(matches!(refused, ConsoleError::NotLoopback(_)), "a name is not enough: {refused}");
    let refused = console().tls(&pem, &key).serve("0.0.0.0:0").await.unwrap_err();
    assert!(matches!(refused, ConsoleError::NoHost(_)) && refused.to_string().contains("`host`"), "{refused}");
    for (pem, key) in [("", key.as_str()), (pem.as_str(), ""), (&key, &pem), (&pem, &certificate().key)] {
        let refused = console().tls(pem, key).host(NAME).serve("0.0.0.0:0").await.unwrap_err();
        assert!(matches!(refused, ConsoleError::Option { name: "tls", .. }), "{refused}");
        assert!(!refused.to_string().contains("PRIVATE KEY-----\n"), "no key is in the error");
    }
    let refused = console().tls(&pem, &key).host("https://a/").serve("127.0.0.1:0").await.unwrap_err();
    assert!(matches!(refused, ConsoleError::Option { name: "host", .. }), "{refused}");
}

#[tokio::test]
async fn k7_a_console_with_tls_is_reached_by_its_name_alone() {
    let Certificate { pem, key, roots } = certificate();
    let console = console().tls(pem, key).host(NAME).serve("0.0.0.0:0").await.unwrap();
    let (addr, port) = (console.addr(), console.addr().port());
    let (start, token) = console.url().split_once("#token=").unwrap();
    assert_eq!(start, format!("https://{NAME}:{port}/"));
    let own = format!("https://{NAME}:{port}");
    let request =
        |host: &str, headers: &str| format!("GET /api/console HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n");
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let own_host = format!("{NAME}:{port}");
    for (host, headers, expected) in [
        (own_host.as_str(), format!("{bearer}Origin: {own}\r\n"), "HTTP/1.1 200"),
        (NAME, bearer.clone(), "HTTP/1.1 200"),
        (&own_host, String::new(), "HTTP/1.1 401"),
        (&own_host, format!("{bearer}Origin: http://{NAME}:{port}\r\n"), "HTTP/1.1 403"),
        ("127.0.0.1", bearer.clone(), "HTTP/1.1 403"),
        ("localhost", bearer.clone(), "HTTP/1.1 403"),
        ("evil.example", bearer.clone(), "HTTP/1.1 403"),
    ] {
        let said = encrypted(addr, roots.clone(), &request(host, &headers)).await.unwrap();
        assert!(said.starts_with(expected), "{host}: {said}");
    }
    let plain = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let said = answer(plain, &request(&own_host, &bearer)).await;
    assert!(!said.contains("HTTP/1.1"), "without TLS nothing is answered: {said}");
    assert!(encrypted(addr, certificate().roots, "").await.is_err(), "another certificate is not trusted");
    console.shutdown().await;
}
