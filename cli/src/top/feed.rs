//! [`Feed`]: asks the process for what the view wants, and connects again after a loss.
//!
//! Invariants:
//! 1. One request is under way at a time. A view that wants something else replaces its wish; it
//!    never queues requests.
//! 2. While no key is pressed, the process spends at most a fifth of the time on this command: the
//!    wait between two rounds is at least four times the time of its answers.
//! 3. A frozen view asks nothing.

use super::wish::{Answer, General, ListWish, Order, Round, Shown, Update, Wish};
use crate::failure::{Failure, Status};
use crate::socket::{Socket, SocketPath};
use pleach::actor::ActorPath;
use pleach::inspect::{Client, ClientError, SnapshotRequest, TopRequest};
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The first and the longest wait before another attempt to connect.
const CONNECT_AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// The children in a page of the tree.
pub const PAGE_LEN: usize = 100;

/// How many updates wait for the view.
const UPDATES_MAX: usize = 64;

/// The kinds of events that a detail shows.
const EVENT_KINDS: [&str; 6] = ["failures", "decisions", "lifecycle", "gave_up", "unhandled", "dead_letters"];

/// The tasks that talk to the process. Dropping it ends them.
pub struct Feed {
    target: SocketPath,
    limit: Duration,
    wish: watch::Sender<Wish>,
    orders: mpsc::Sender<Order>,
    sender: mpsc::Sender<Update>,
    updates: mpsc::Receiver<Update>,
    requests: JoinHandle<()>,
    events: Option<(ActorPath, JoinHandle<()>)>,
}

impl Feed {
    /// Starts to ask over an open connection.
    pub fn start(socket: Socket, limit: Duration, wish: Wish) -> Self {
        let target = socket.path().clone();
        let (sender, updates) = mpsc::channel(UPDATES_MAX);
        let (orders, ordered) = mpsc::channel(4);
        let (wish, wishes) = watch::channel(wish);
        let asking = Asking { target: target.clone(), limit, wishes, ordered, updates: sender.clone() };
        let requests = tokio::spawn(asking.run(socket));
        Self { target, limit, wish, orders, sender, updates, requests, events: None }
    }

    /// Waits for the next update. Cancel safe.
    pub async fn next(&mut self) -> Update {
        match self.updates.recv().await {
            Some(update) => update,
            // It holds a sender itself.
            None => std::future::pending().await,
        }
    }

    /// Replaces what is asked for.
    pub fn want(&mut self, wish: Wish) {
        let followed = match &wish.shown {
            Shown::Detail(path) if !wish.is_frozen => Some(path.clone()),
            Shown::Detail(_) => self.events.as_ref().map(|(path, _)| path.clone()),
            _ => None,
        };
        self.follow(followed);
        self.wish.send_if_modified(|current| std::mem::replace(current, wish.clone()) != wish);
    }

    /// Orders an action. Returns false if several orders wait already.
    pub fn order(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
    }

    /// Begins again to follow events, over a new connection.
    pub fn follow_again(&mut self) {
        if let Some((path, _)) = &self.events {
            let path = path.clone();
            self.follow(None);
            self.follow(Some(path));
        }
    }

    /// Follows the events of one member and those below it, over a connection of its own.
    fn follow(&mut self, path: Option<ActorPath>) {
        if self.events.as_ref().map(|(path, _)| path) == path.as_ref() {
            return;
        }
        if let Some((_, task)) = self.events.take() {
            task.abort();
        }
        self.events = path.map(|path| {
            let (target, limit, sender) = (self.target.clone(), self.limit, self.sender.clone());
            let followed = path.clone();
            let task = tokio::spawn(async move {
                if let Err(failure) = follow_events(&target, limit, &path, &sender).await {
                    drop(sender.send(Update::NoEvents(path, failure.text)).await);
                }
            });
            (followed, task)
        });
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.requests.abort();
        self.follow(None);
    }
}

async fn follow_events(
    target: &SocketPath,
    limit: Duration,
    path: &ActorPath,
    updates: &mpsc::Sender<Update>,
) -> Result<(), Failure> {
    let mut socket = target.open(limit).await?;
    socket.ask(async |client| client.follow_below(path, Some(&EVENT_KINDS)).await).await?;
    loop {
        let event = socket.client().next_event().await.map_err(|error| target.failure(&error))?;
        if updates.send(Update::Event(path.clone(), event)).await.is_err() {
            return Ok(());
        }
    }
}

/// The task that sends requests.
struct Asking {
    target: SocketPath,
    limit: Duration,
    wishes: watch::Receiver<Wish>,
    ordered: mpsc::Receiver<Order>,
    updates: mpsc::Sender<Update>,
}

/// The view is gone.
struct Gone;

enum Stop {
    Gone,
    Lost(Failure),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Lost(failure)
    }
}

impl Asking {
    async fn run(mut self, first: Socket) {
        let mut socket = first;
        loop {
            let Err(stop) = self.ask_until_lost(&mut socket).await;
            let Stop::Lost(failure) = stop else { return };
            if self.send(Update::Lost(failure.text)).await.is_err() {
                return;
            }
            match self.connect_again().await {
                Ok(again) => socket = again,
                Err(Gone) => return,
            }
        }
    }

    async fn connect_again(&mut self) -> Result<Socket, Gone> {
        let mut wait = CONNECT_AGAIN.0;
        loop {
            tokio::time::sleep(wait).await;
            while let Ok(order) = self.ordered.try_recv() {
                self.send(Update::Acted(order, Err("there is no connection to the process".into()))).await?;
            }
            match self.target.open(self.limit).await {
                Ok(socket) => return Ok(socket),
                Err(failure) => self.send(Update::Lost(failure.text)).await?,
            }
            wait = (wait * 2).min(CONNECT_AGAIN.1);
        }
    }

    async fn send(&self, update: Update) -> Result<(), Gone> {
        self.updates.send(update).await.map_err(|_| Gone)
    }

    async fn ask_until_lost(&mut self, socket: &mut Socket) -> Result<std::convert::Infallible, Stop> {
        self.send(Update::Connected(socket.hello().clone())).await?;
        let mut general_at = Instant::now();
        loop {
            let wish = self.wishes.borrow_and_update().clone();
            let mut took = Duration::ZERO;
            if !wish.is_frozen {
                let began = Instant::now();
                let is_due = general_at <= began;
                let round = Box::new(round(socket, &wish, is_due).await?);
                self.send(Update::Round(round)).await?;
                took = began.elapsed();
                if is_due {
                    general_at = Instant::now() + wish.interval.max(took * 4);
                }
            }
            self.wait(socket, &wish, general_at.max(Instant::now() + took * 4)).await?;
        }
    }

    /// Waits until the next round is due, or the view wants to see something else.
    async fn wait(&mut self, socket: &mut Socket, wish: &Wish, until: Instant) -> Result<(), Stop> {
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until), if !wish.is_frozen => return Ok(()),
                changed = self.wishes.changed() => {
                    changed.map_err(|_| Gone)?;
                    let next = self.wishes.borrow_and_update();
                    if next.shown != wish.shown || next.is_frozen != wish.is_frozen || next.interval < wish.interval {
                        return Ok(());
                    }
                }
                order = self.ordered.recv() => {
                    self.act(socket, order.ok_or(Gone)?).await?;
                    // What the order did is shown at once.
                    return Ok(());
                }
            }
        }
    }

    async fn act(&self, socket: &mut Socket, order: Order) -> Result<(), Stop> {
        let Order { action, path, id } = order.clone();
        let outcome = match socket.ask(async |client| client.act(action, &path, Some(id)).await).await {
            Ok(()) => Ok(()),
            Err(failure) if is_refusal(&failure) => Err(failure.text),
            Err(failure) => {
                self.send(Update::Acted(order, Err(failure.text.clone()))).await?;
                return Err(failure.into());
            }
        };
        Ok(self.send(Update::Acted(order, outcome)).await?)
    }
}

/// Returns whether the connection is still good after this failure.
fn is_refusal(failure: &Failure) -> bool {
    matches!(failure.status, Status::Refused | Status::NotFound)
}

async fn round(socket: &mut Socket, wish: &Wish, with_general: bool) -> Result<Round, Failure> {
    let (mut list_took, mut selected) = (None, None);
    let answer = match &wish.shown {
        Shown::List(list) => {
            let began = Instant::now();
            let request = request(list);
            let top = socket.ask(async |client| client.top(request).await).await;
            list_took = Some(began.elapsed());
            let top = optional(top)?;
            let rows = top.as_ref().map_or(&[][..], |top| &top.rows);
            if let Some(path) = wish.selected.as_ref().filter(|path| rows.iter().all(|row| row.member.path != **path)) {
                let member = optional(socket.ask(async |client| client.member(path).await).await)?;
                selected = Some((path.clone(), member));
            }
            Answer::List(list.clone(), top)
        }
        Shown::Tree(pages) => {
            let mut answers = Vec::new();
            for page in pages {
                let mut request = SnapshotRequest::new();
                (request.path, request.depth, request.limit) = (Some(page.path.clone()), Some(1), Some(PAGE_LEN));
                request.cursor = page.cursor.clone();
                answers.push((page.clone(), optional(socket.ask(async |client| client.snapshot(request).await).await)?));
            }
            Answer::Tree(answers)
        }
        Shown::Problems => {
            let mut request = SnapshotRequest::new();
            request.not_well = true;
            let found = socket.ask(async |client| client.snapshot(request).await).await?;
            Answer::Problems(found.members)
        }
        Shown::Detail(path) => {
            let found = socket.ask(async |client| detail(client, path).await).await;
            Answer::Detail(path.clone(), optional(found)?.map(Box::new))
        }
    };
    let general = if with_general { Some(general(socket).await?) } else { None };
    Ok(Round { at: SystemTime::now().into(), general, answer, selected, list_took })
}

async fn detail(
    client: &mut Client,
    path: &ActorPath,
) -> Result<(pleach::inspect::MemberInfo, pleach::inspect::Why), ClientError> {
    Ok((client.member(path).await?, client.why(path).await?))
}

async fn general(socket: &mut Socket) -> Result<General, Failure> {
    let user = super::view::user_path().unwrap_or_default();
    let rates = socket.ask(async |client| client.rates(&user).await).await?;
    let health = socket.ask(async |client| client.health().await).await?;
    let hello = socket.ask(async |client| client.refresh_hello().await.cloned()).await?;
    Ok(General { hello, health, rates })
}

/// Returns the request for a list.
pub fn request(list: &ListWish) -> TopRequest {
    let mut request = TopRequest::by(list.by);
    (request.path, request.limit) = (list.below.clone(), Some(list.limit));
    request.contains = (!list.contains.is_empty()).then(|| list.contains.clone());
    request
}

fn optional<T>(found: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.status == Status::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}
