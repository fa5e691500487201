//! Accepts and bounds connections, with time limits for reading and writing.

use super::accept::Accept;
use super::connections::{Connections, Place, Taken};
use super::patient_io::PatientIo;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower_service::Service as _;

/// The most bytes of the head of a request, and of what is kept for a reader.
const BUFFER_MAX: usize = 64 * 1024;

/// How connections are bounded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How long a connection may take to send a whole head, and be idle between two requests.
    pub(crate) head_within: Duration,
    /// How long a reader may take nothing of what was written for it.
    pub(crate) write_within: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { head_within: Duration::from_secs(15), write_within: Duration::from_secs(10) }
    }
}

/// What every connection is served with.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) router: Router,
    pub(crate) accept: Arc<dyn Accept>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) bounds: Bounds,
}

/// Serves connections until it is dropped. Dropping it closes them.
pub(crate) async fn listen(listener: TcpListener, service: Service) {
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Frames are small, and a person waits for them.
                    drop(stream.set_nodelay(true));
                    if let Some(taken) = service.connections.take() {
                        served.spawn(open(stream, service.clone(), taken));
                    }
                }
                // Such as: no free descriptor.
                Err(error) => {
                    tracing::warn!(target: "pleach::console", %error, "the console could not accept a connection");
                    sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = served.join_next() => {}
        }
    }
}

/// Opens a connection and serves it. Opening has the time of a request's head.
async fn open(stream: TcpStream, service: Service, taken: Taken) {
    let Service { router, accept, bounds, .. } = service;
    let opened = tokio::select! {
        opened = timeout(bounds.head_within, accept.accept(stream)) => opened,
        () = taken.place.is_needed() => return,
    };
    // Errors are those of the peer: it speaks no TLS, trusts another certificate, or is too slow.
    if let Ok(Ok(connection)) = opened {
        serve(connection, router, taken, bounds).await;
    }
}

/// Serves one connection.
pub(crate) async fn serve<C>(connection: C, router: Router, taken: Taken, bounds: Bounds)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let place = Arc::clone(&taken.place);
    let requests = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert::<Arc<Place>>(Arc::clone(&place));
        router.clone().call(request.map(Body::new))
    });
    let connection = TokioIo::new(PatientIo::new(connection, bounds.write_within));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_within)
        .max_buf_size(BUFFER_MAX)
        // The buffer alone does not bound a head that arrives at once.
        .max_header_size(BUFFER_MAX)
        .serve_connection(connection, requests);
    tokio::select! {
        // Errors are those of the peer: it sent no HTTP, was too slow, or left.
        _ = served => {}
        () = taken.place.is_needed() => {}
    }
}
