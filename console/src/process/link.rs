//! [`Link`]: the connections over which a source asks its process.
//!
//! Invariants:
//! 1. Nothing is connected until somebody asks. A connection that nobody has used for
//!    [`LINGER`] is closed.
//! 2. A connection answers one question at a time. Up to [`CONNECTIONS_MAX`] are open, so that a
//!    long answer does not delay the others.
//! 3. A connection whose question was given up is closed, because its answer would come later.
//! 4. After a failed attempt nobody tries again before the back-off has passed; who asks meanwhile
//!    gets the same failure.

use crate::failure::Failure;
use crate::process::target::{Target, UNREACHABLE, within};
use pleach::inspect::{Client, ClientError, Hello};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

/// How many questions are asked at the same time.
const CONNECTIONS_MAX: usize = 4;

/// How long an unused connection stays open.
pub(super) const LINGER: Duration = Duration::from_secs(10);

/// The first wait after a failed attempt, and the longest one. It doubles in between.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// The connections to one process.
pub(super) struct Link {
    target: Target,
    places: Semaphore,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Connections that wait for a question.
    idle: Vec<Client>,
    used_at: Option<Instant>,
    /// A task waits to close idle connections.
    is_closing_later: bool,
    known: Known,
    /// The last failure, how many there were in a row, and when the next attempt may be made.
    failed: Option<(Failure, u32, Instant)>,
}

/// What is known about the process without asking.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// The greeting of the last connection.
    pub(super) hello: Option<Hello>,
    /// Whether the last question was answered.
    pub(super) is_connected: bool,
    /// Why not, if it was not.
    pub(super) problem: Option<Failure>,
}

impl Link {
    pub(super) fn new(target: Target) -> Arc<Self> {
        Arc::new(Self { target, places: Semaphore::new(CONNECTIONS_MAX), state: Mutex::default() })
    }

    /// Returns what commands take as SOCKET. `None` without a socket, or before a process in memory
    /// has said where its socket is.
    pub(super) fn socket(&self) -> Option<String> {
        let said = || self.state().known.hello.as_ref().and_then(|hello| hello.socket.clone());
        self.target.socket().or_else(said)
    }

    pub(super) fn known(&self) -> Known {
        self.state().known.clone()
    }

    /// Returns a connection to ask with. One that was open before is tried first, because the
    /// process may have ended meanwhile.
    pub(super) async fn session(self: &Arc<Self>) -> Result<Session<'_>, Failure> {
        // The semaphore is never closed.
        let place = self.places.acquire().await.ok();
        let mut client = match self.take_idle() {
            Some(client) => client,
            None => self.connect().await?,
        };
        if within(client.refresh_hello()).await.is_err() {
            client = self.connect().await?;
        }
        Ok(Session { link: self, client: Some(client), is_asking: false, _place: place })
    }

    /// Opens a connection of the caller's own, which is not closed when it is idle.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        let failed = self.state().failed.clone();
        if let Some((failure, _, _)) = failed.filter(|(_, _, next)| Instant::now() < *next) {
            return Err(failure);
        }
        let client = self.target.connect().await.map_err(|failure| self.note_failure(failure))?;
        let mut state = self.state();
        state.failed = None;
        state.known = Known { hello: Some(client.hello().clone()), is_connected: true, problem: None };
        Ok(client)
    }

    /// Notes that the process cannot be reached, and drops what was open. Returns the failure.
    pub(super) fn note_failure(&self, failure: Failure) -> Failure {
        let mut state = self.state();
        let failures = state.failed.as_ref().map_or(0, |(_, failures, _)| *failures);
        let wait = BACK_OFF.0.saturating_mul(2_u32.saturating_pow(failures)).min(BACK_OFF.1);
        state.failed = Some((failure.clone(), failures.saturating_add(1), Instant::now() + wait));
        (state.known.is_connected, state.known.problem) = (false, Some(failure.clone()));
        let ended = std::mem::take(&mut state.idle);
        drop(state);
        drop(ended);
        failure
    }

    fn take_idle(&self) -> Option<Client> {
        let mut state = self.state();
        state.used_at = Some(Instant::now());
        state.idle.pop()
    }

    /// Keeps a connection for the next question, and closes it later if nobody uses it.
    fn put_back(self: &Arc<Self>, client: Client) {
        let mut state = self.state();
        state.known = Known { hello: Some(client.hello().clone()), is_connected: true, problem: None };
        state.idle.push(client);
        state.used_at = Some(Instant::now());
        // Without a runtime the program is ending, and the connection with it.
        let Ok(runtime) = Handle::try_current() else { return state.idle.clear() };
        if std::mem::replace(&mut state.is_closing_later, true) {
            return;
        }
        drop(state);
        let link = Arc::downgrade(self);
        runtime.spawn(async move {
            let mut at = Instant::now() + LINGER;
            loop {
                sleep_until(at).await;
                let Some(link) = link.upgrade() else { return };
                match link.close_unused() {
                    Some(later) => at = later,
                    None => return,
                }
            }
        });
    }

    /// Closes the idle connections if nobody has asked for long. Otherwise returns when to look
    /// again.
    fn close_unused(&self) -> Option<Instant> {
        let mut state = self.state();
        let at = state.used_at.map(|used| used + LINGER).filter(|at| Instant::now() < *at);
        if at.is_some() {
            return at;
        }
        state.is_closing_later = false;
        let unused = std::mem::take(&mut state.idle);
        drop(state);
        drop(unused);
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use. Dropping it makes it free again, unless an answer is still to come.
pub(super) struct Session<'a> {
    link: &'a Arc<Link>,
    client: Option<Client>,
    is_asking: bool,
    _place: Option<SemaphorePermit<'a>>,
}

impl Session<'_> {
    /// Returns the greeting of the process, which was asked for when the session began.
    pub(super) fn hello(&self) -> Result<Hello, Failure> {
        let client = self.client.as_ref().map(|client| client.hello().clone());
        client.ok_or_else(|| Failure::new(UNREACHABLE, "the connection was closed"))
    }

    /// Asks one question or several, within the limit of one answer.
    pub(super) async fn ask<'s, T, A>(&'s mut self, question: impl FnOnce(&'s mut Client) -> A) -> Result<T, Failure>
    where
        A: Future<Output = Result<T, ClientError>>,
    {
        let Some(client) = self.client.as_mut() else { return Err(Failure::new(UNREACHABLE, "the connection was closed")) };
        self.is_asking = true;
        let answer = within(question(client)).await;
        match answer {
            Err(failure) if failure.code == UNREACHABLE => Err(self.link.note_failure(failure)),
            answer => {
                self.is_asking = false;
                answer
            }
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client.take().filter(|_| !self.is_asking) {
            self.link.put_back(client);
        }
    }
}
