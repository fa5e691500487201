//! [`Connections`]: how many connections are open, and which one makes room for a new one.
//!
//! Anybody who can reach the port can open connections and keep them idle. When no place is free,
//! the oldest connection that has not shown the token is closed. So connections without the token
//! cannot keep out those that have it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The most connections that are open at once.
pub(crate) const CONNECTIONS_MAX: usize = 256;

/// All open connections of a console.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Mutex<Open>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Open {
    places: BTreeMap<u64, Arc<Place>>,
    last: u64,
}

/// One open connection.
#[derive(Debug, Default)]
pub(crate) struct Place {
    has_shown_token: AtomicBool,
    close: Notify,
}

impl Place {
    /// Notes that a request of this connection had the token.
    pub(crate) fn trust(&self) {
        self.has_shown_token.store(true, Ordering::Relaxed);
    }

    /// Waits until another connection needs the place.
    pub(crate) async fn is_needed(&self) {
        self.close.notified().await;
    }
}

/// An open connection in the table. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Taken {
    connections: Arc<Connections>,
    number: u64,
    pub(crate) place: Arc<Place>,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), limit })
    }

    /// Takes a place for a new connection, if need be that of the oldest one without the token.
    /// `None`: all places belong to connections with the token.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Taken> {
        let mut open = self.open();
        if open.places.len() >= self.limit {
            let is_strange = |place: &Place| !place.has_shown_token.load(Ordering::Relaxed);
            let oldest = open.places.iter().find(|(_, place)| is_strange(place)).map(|(number, _)| *number)?;
            if let Some(place) = open.places.remove(&oldest) {
                place.close.notify_one();
            }
        }
        open.last += 1;
        let (number, place) = (open.last, Arc::new(Place::default()));
        open.places.insert(number, Arc::clone(&place));
        Some(Taken { connections: Arc::clone(self), number, place })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.connections.open().places.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn k7_strangers_make_room_and_connections_with_the_token_stay() {
        let connections = Connections::new(3);
        let (trusted, first, second) = (connections.take().unwrap(), connections.take().unwrap(), connections.take().unwrap());
        trusted.place.trust();
        let third = connections.take().unwrap();
        first.place.is_needed().await; // the oldest stranger
        second.place.trust();
        third.place.trust();
        assert!(connections.take().is_none());
        drop((first, second));
        assert!(connections.take().is_some());
    }
}
