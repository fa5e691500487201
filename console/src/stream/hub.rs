//! [`Hub`]: the tasks behind the streams. One looks at each watched view, one feeds each stream.

use super::board::{Board, Change, KEY_MAX, Reading, STREAMS_MAX, Urgency, VALUE_MAX, WATCHES_MAX};
use super::pace::{Pace, rest_after};
use crate::clock;
use crate::failure::Failure;
use crate::source::Answer;
use crate::sources::alone;
use crate::view::View;
use axum::body::Bytes;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};

/// A stream without any other line says so that often.
const ALIVE_EVERY: Duration = Duration::from_secs(10);

/// A look that takes longer is shown as a failure until it ends.
const LOOK_WITHIN: Duration = Duration::from_secs(10);

/// The version of the lines of a stream.
const PROTOCOL: u32 = 1;

/// Answers views. What it returns may leave the console: it is redacted.
pub(crate) trait Look: Send + Sync + 'static {
    fn look<'a>(&'a self, view: &'a View) -> Answer<'a, Value>;
}

/// The streams of a console.
pub(crate) struct Hub {
    look: Arc<dyn Look>,
    work: Mutex<Work>,
}

#[derive(Default)]
struct Work {
    board: Board,
    /// The tasks that look at views, by the numbers that the board gives.
    tasks: HashMap<u64, AbortHandle>,
    /// Wakes the tasks that feed streams.
    wakes: HashMap<u64, Arc<Notify>>,
    is_closed: bool,
}

impl Hub {
    pub(crate) fn new(look: Arc<dyn Look>) -> Arc<Self> {
        Arc::new(Self { look, work: Mutex::default() })
    }

    /// Opens a stream with a random `id`.
    ///
    /// # Errors
    /// `too_many_streams` if 32 are open.
    pub(crate) fn open(self: &Arc<Self>, id: String) -> Result<StreamBody, Failure> {
        let mut work = self.work();
        let number = if work.is_closed { None } else { work.board.open(id.clone()) };
        let Some(number) = number else {
            let text = format!("{STREAMS_MAX} browsers are connected to this console already");
            return Err(Failure::new("too_many_streams", text).advice("close one of them; a hidden page needs no stream"));
        };
        let wake = Arc::new(Notify::new());
        work.wakes.insert(number, Arc::clone(&wake));
        drop(work);
        let (sender, receiver) = mpsc::channel(1);
        let greeting = format!("{{\"stream\":{},\"protocol\":{PROTOCOL}}}\n", Value::from(id));
        let open = OpenStream { hub: Arc::clone(self), number };
        tokio::spawn(feed(open, wake, sender, greeting));
        Ok(StreamBody(receiver))
    }

    /// Replaces what the stream with this id watches.
    ///
    /// # Errors
    /// `not_found` if no such stream is open, `bad_request` for too many watches.
    pub(crate) fn replace(self: &Arc<Self>, id: &str, watches: BTreeMap<String, View>) -> Result<(), Failure> {
        if watches.len() > WATCHES_MAX {
            return Err(Failure::new("bad_request", format_args!("a stream watches at most {WATCHES_MAX} views")));
        }
        for (key, view) in &watches {
            if key.len() > KEY_MAX || !key.chars().all(|character| character.is_ascii_graphic()) {
                let text = format!("the key of a watch has at most {KEY_MAX} visible ASCII characters");
                return Err(Failure::new("bad_request", text));
            }
            view.check()?;
        }
        let mut work = self.work();
        let Some(number) = work.board.find(id) else {
            return Err(Failure::new("not_found", "this stream has ended").advice("open a new one"));
        };
        let change = work.board.replace(number, watches);
        self.apply(&mut work, change);
        if let Some(wake) = work.wakes.get(&number) {
            wake.notify_one();
        }
        Ok(())
    }

    /// Ends all streams, and takes no further ones.
    pub(crate) fn close(&self) {
        let mut work = self.work();
        work.is_closed = true;
        work.tasks.drain().for_each(|(_, task)| task.abort());
        work.wakes.drain().for_each(|(_, wake)| wake.notify_one());
    }

    fn apply(self: &Arc<Self>, work: &mut Work, change: Change) {
        for task in change.ended {
            if let Some(task) = work.tasks.remove(&task) {
                task.abort();
            }
        }
        for (view, task) in change.begun {
            let watching = tokio::spawn(keep_looking(Arc::clone(self), view, task));
            work.tasks.insert(task, watching.abort_handle());
        }
    }

    fn publish(&self, view: &View, task: u64, seen: &Result<Value, Failure>) {
        let reading = Reading { at: clock::now(), content: content(seen) };
        let work = &mut *self.work();
        for stream in work.board.publish(view, task, reading) {
            if let Some(wake) = work.wakes.get(&stream) {
                wake.notify_one();
            }
        }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a line says about a view.
fn content(seen: &Result<Value, Failure>) -> String {
    match seen {
        Ok(value) => {
            let text = value.to_string();
            if text.len() > VALUE_MAX { format!("\"too_large\":{}", text.len()) } else { format!("\"value\":{text}") }
        }
        Err(failure) => format!("\"error\":{}", serde_json::to_value(failure).unwrap_or_default()),
    }
}

/// Looks at a view again and again, until it is aborted.
async fn keep_looking(hub: Arc<Hub>, view: View, task: u64) {
    loop {
        let began = Instant::now();
        let mut look = pin!(seen_alone(Arc::clone(&hub.look), view.clone()));
        let seen = match timeout(LOOK_WITHIN, &mut look).await {
            Ok(seen) => seen,
            Err(_) => {
                let limit = LOOK_WITHIN.as_secs();
                let late = Failure::new("timed_out", format_args!("no answer within {limit} s"));
                hub.publish(&view, task, &Err(late.advice("the console waits for the answer")));
                look.await
            }
        };
        hub.publish(&view, task, &seen);
        let took = began.elapsed();
        sleep_until(began + view.pace().max(took + rest_after(took))).await;
    }
}

/// Looks once. A panic is a failure: the view would never change again if it ended the task.
async fn seen_alone(look: Arc<dyn Look>, view: View) -> Result<Value, Failure> {
    // The text of the panic is not redacted, so it is not shown.
    let unseen = |_| Failure::new("internal", "the console failed while it answered").advice("please report it");
    alone(async move { Ok(look.look(&view).await) }).await.map_err(unseen)?
}

/// Sends the frames of a stream until its reader is gone.
async fn feed(open: OpenStream, wake: Arc<Notify>, sender: mpsc::Sender<String>, greeting: String) {
    let mut pace = Pace::default();
    if sender.send(greeting).await.is_err() {
        return;
    }
    // A place in the channel is free when the reader has taken the frame before.
    while let Ok(place) = sender.reserve().await {
        let alive = Instant::now() + ALIVE_EVERY;
        let text = loop {
            let Some(pending) = open.pending() else { return };
            let now = Instant::now();
            let due = match pending {
                Pending::Nothing => alive,
                Pending::Frame(urgency) => pace.next(urgency == Urgency::NewWatch, now),
            };
            if now >= due {
                break match pending {
                    Pending::Nothing => open.alive(),
                    Pending::Frame(_) => open.frame(),
                };
            }
            tokio::select! {
                () = wake.notified() => {}
                () = sleep_until(due) => {}
                () = sender.closed() => return,
            }
        };
        pace.sent(Instant::now());
        place.send(text);
    }
}

enum Pending {
    Nothing,
    Frame(Urgency),
}

/// A stream on the board. Dropping it removes it, and ends what only it watched.
struct OpenStream {
    hub: Arc<Hub>,
    number: u64,
}

impl OpenStream {
    /// `None`: the hub is closed.
    fn pending(&self) -> Option<Pending> {
        let work = self.hub.work();
        if work.is_closed {
            return None;
        }
        Some(work.board.pending(self.number).map_or(Pending::Nothing, Pending::Frame))
    }

    fn frame(&self) -> String {
        self.hub.work().board.frame(self.number).text
    }

    fn alive(&self) -> String {
        self.hub.work().board.alive(self.number, &clock::now())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut work = self.hub.work();
        let change = work.board.close(self.number);
        work.wakes.remove(&self.number);
        self.hub.apply(&mut work, change);
    }
}

/// The body of an answer that sends a stream.
pub(crate) struct StreamBody(mpsc::Receiver<String>);

impl http_body::Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|text| text.map(|text| Ok(http_body::Frame::data(Bytes::from(text)))))
    }
}
