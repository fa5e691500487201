//! [`Watch`]: two tasks that read what a tool can read: the inspection socket of the worker, and
//! its store.

use super::Update;
use super::orders::OrderBook;
use crate::demo::folder::Places;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;

/// The time between two looks at the tree, and at the store.
#[cfg(unix)]
const TREE_EVERY: Duration = Duration::from_millis(150);
const ORDERS_EVERY: Duration = Duration::from_millis(200);

/// The tasks. They work until they are stopped.
#[derive(Default)]
pub struct Watch(Vec<JoinHandle<()>>);

impl Watch {
    /// Starts the tasks. A second call does nothing: they find the next worker themselves.
    pub fn start(&mut self, places: &Places, updates: &Sender<Update>) {
        if !self.0.is_empty() {
            return;
        }
        self.0.push(tokio::spawn(orders(places.clone(), updates.clone())));
        #[cfg(unix)]
        self.0.push(tokio::spawn(tree(places.socket(), updates.clone())));
    }

    pub fn stop(&mut self) {
        self.0.drain(..).for_each(|task| task.abort());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads the orders from the store. A failed look is repeated: the next one finds more.
async fn orders(places: Places, updates: Sender<Update>) {
    let mut book: Option<OrderBook> = None;
    loop {
        if book.is_none() {
            book = OrderBook::open(&places).await.ok();
            if let Some(book) = &book
                && updates.send(Update::Book(book.clone())).await.is_err()
            {
                return;
            }
        }
        if let Some(book) = &book
            && let Ok(seen) = book.look().await
            && updates.send(Update::Orders(seen)).await.is_err()
        {
            return;
        }
        tokio::time::sleep(ORDERS_EVERY).await;
    }
}

/// Reads the tree through the socket, as `pleach top` does, and connects again after a kill.
#[cfg(unix)]
async fn tree(socket: PathBuf, updates: Sender<Update>) {
    use pleach::inspect::{Client, SnapshotRequest};
    let mut client: Option<Client> = None;
    loop {
        if client.is_none() {
            client = Client::connect(&socket).await.ok();
        }
        if let Some(connected) = &mut client {
            let mut request = SnapshotRequest::new();
            (request.path, request.limit) = ("/user".parse().ok(), Some(200));
            let seen = async {
                Ok::<_, pleach::inspect::ClientError>((connected.snapshot(request).await?, connected.health().await?))
            };
            match seen.await {
                Ok((snapshot, health)) => {
                    if updates.send(Update::Tree(snapshot.members, health)).await.is_err() {
                        return;
                    }
                }
                Err(_) => client = None,
            }
        }
        tokio::time::sleep(TREE_EVERY).await;
    }
}
