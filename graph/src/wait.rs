//! What a node can wait for, durably: the answer to a question, a signal, a time. While it waits, the run may be paused, and go on in another
//! process.

use crate::context::NodeContext;
use crate::effect::{EffectError, Scene};
use crate::journal::notes::{Kept, Namespace, NoteBody, OpenWait, Waiting};
use crate::letters::{InHand, Letter, Letters, answer_to, signal_of};
use crate::store::{Kind, Timestamp};
use pleach_core::{BoxFuture, Instant};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use std::future::{pending, poll_fn};
use std::task::Poll;
use std::time::{Duration, SystemTime};

impl NodeContext {
    /// Asks somebody outside, and waits for the answer: `let approved: bool = cx.interrupt("approve", &draft).await`.
    ///
    /// The question is written down. When no branch of the run can go on, a stored run ends with [`Paused`](crate::RunFault::Paused), and is
    /// gone on with by [`resume_with`](crate::Resume::resume_with), or by whoever posts an answer to it. The node then runs again from its
    /// beginning; its effects are not repeated, and here it is given the answer. An answer that is no `T` is refused, and the node goes on waiting.
    ///
    /// A node that waits here is taken to do nothing else meanwhile, but for effects that are under way.
    pub fn interrupt<T>(&self, key: impl Into<String>, question: &(impl Serialize + ?Sized)) -> BoxFuture<'static, T>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (scene, key, question) = (self.scene(), key.into(), to_raw_value(question).map_err(|error| error.to_string()));
        Box::pin(async move {
            let question = match question {
                Ok(question) => question,
                Err(why) => return scene.fail(EffectError::Unstorable { key, why }).await,
            };
            let letter = answer_to(&key);
            scene.answer(Namespace::Wait, key, Some(question), letter).await
        })
    }

    /// Waits for a signal of this name, and gives what it says. Each signal is taken once; those that come before somebody waits are kept.
    pub fn signal<T>(&self, name: impl Into<String>) -> BoxFuture<'static, T>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (scene, name) = (self.scene(), name.into());
        Box::pin(async move {
            // The second wait for a signal in one attempt is another wait.
            let Some(count) = scene.notes.lock_for(scene.attempt).map(|mut notes| notes.count_signal(&name)) else {
                return pending().await;
            };
            let letter = signal_of(&name);
            scene.answer(Namespace::Signal(count), name, None, letter).await
        })
    }

    /// Waits until a time of day, by the store's clock ([`now`](Self::now)). The first deadline counts: whoever comes this way again, by a retry or
    /// after a crash, waits for that one, whatever `at` says then.
    pub fn sleep_until(&self, key: impl Into<String>, at: SystemTime) -> BoxFuture<'static, ()> {
        let (scene, key) = (self.scene(), key.into());
        Box::pin(async move { scene.sleep(key, at.into()).await })
    }

    /// Waits this long, from when it was first asked for; as [`sleep_until`](Self::sleep_until).
    pub fn sleep(&self, key: impl Into<String>, time: Duration) -> BoxFuture<'static, ()> {
        let at = Timestamp::from(self.now()).after(time);
        let (scene, key) = (self.scene(), key.into());
        Box::pin(async move { scene.sleep(key, at).await })
    }

    /// The time of day by the clock of the store that keeps the run; if none does, that of the machine, or of the simulation.
    pub fn now(&self) -> SystemTime {
        let run = self.shared.run();
        let stored = run.journal().map(|journal| Duration::from_millis(journal.now().as_millis().max(0) as u64));
        let since_1970 = stored.or_else(|| run.runtime().ok()?.time_of_day());
        since_1970.map_or_else(SystemTime::now, |time| SystemTime::UNIX_EPOCH + time)
    }
}

impl Scene {
    /// Takes the key of a wait for this attempt, and gives what is known of it.
    async fn begin_wait<T>(&self, namespace: Namespace, key: &str, look: impl FnOnce(&Kept) -> T) -> T {
        let found = self.notes.lock_for(self.attempt).and_then(|mut notes| {
            let kept = notes.kept(namespace, key);
            if std::mem::replace(&mut kept.is_used, true) { None } else { Some(look(kept)) }
        });
        match found {
            Some(found) => found,
            None => self.fail(EffectError::UsedTwice { key: key.to_string() }).await,
        }
    }

    async fn answer<T: DeserializeOwned>(
        self,
        namespace: Namespace,
        key: String,
        question: Option<Box<RawValue>>,
        letter: String,
    ) -> T {
        let look = |kept: &Kept| (kept.value.as_ref().map(|value| value.get().to_string()), kept.wait.is_some());
        let (known, is_written) = self.begin_wait(namespace, &key, look).await;
        if let Some(known) = known {
            return match serde_json::from_str(&known) {
                Ok(answer) => answer,
                Err(error) => self.fail(EffectError::Unstorable { key, why: error.to_string() }).await,
            };
        }
        let Some(letters) = self.letters() else { return self.fail(EffectError::Unanswerable { key }).await };
        // From here on the node waits: what is written with it says so.
        let open = OpenWait { key: key.clone(), due: None, letter: Some(letter.clone()) };
        let Some(waits) = self.wait(open) else { return pending().await };
        if !is_written {
            self.write(Kind::Wait, NoteBody { value: question, ..NoteBody::of_wait(namespace, &key) }).await;
        }
        let (letter, json, answer) = poll_fn(|cx| next_readable(letters, &letter, cx.waker())).await;
        drop(waits);
        let (letter, in_hand) = letter;
        let woken =
            self.submit(Kind::Wake, NoteBody { value: Some(json), ..NoteBody::of_wait(namespace, &key) }, Some(letter.number));
        drop(in_hand);
        match woken {
            Ok(sequence) => self.durable(sequence).await,
            Err(error) => return self.fail(error).await,
        }
        answer
    }

    /// The node waits from now on, and the run is told. `None` if it was cut off.
    fn wait(&self, open: OpenWait) -> Option<Waiting<'_>> {
        let waiting = self.notes.wait(self.attempt, open)?;
        self.tell_if_parked();
        Some(waiting)
    }

    async fn sleep(self, key: String, at: Timestamp) {
        let (known, until) = self.begin_wait(Namespace::Wait, &key, |kept| (kept.wait.flatten(), kept.until)).await;
        let due = known.unwrap_or(at);
        let until = match until.map_or_else(|| self.wake_up(due), Ok) {
            Ok(until) => until,
            Err(fault) => return self.fail(fault).await,
        };
        let runtime = match self.shared.run().runtime() {
            Ok(runtime) => runtime,
            Err(fault) => return self.fail(fault).await,
        };
        if let Some(mut notes) = self.notes.lock_for(self.attempt) {
            notes.kept(Namespace::Wait, &key).until = Some(until);
        }
        // A time that is over is written down as well: a later attempt might name another.
        let is_over = runtime.now() >= until;
        let open = OpenWait { key: key.clone(), due: Some(due), letter: None };
        let waits = if is_over { None } else { self.wait(open) };
        if !is_over && waits.is_none() {
            return pending().await;
        }
        if known.is_none() {
            self.write(Kind::Wait, NoteBody { key, due: Some(due), ..NoteBody::default() }).await;
        }
        if !is_over {
            runtime.sleep_until(until).await;
        }
    }

    /// When it is that time, by the clock of the runtime.
    fn wake_up(&self, due: Timestamp) -> Result<Instant, crate::RunFault> {
        let run = self.shared.run();
        match run.journal() {
            Some(journal) => Ok(journal.instant_of(due)),
            None => {
                let runtime = run.runtime()?;
                let now =
                    runtime.time_of_day().map_or_else(|| SystemTime::now().into(), |time| Timestamp::default().after(time));
                Ok(runtime.now() + due.since(now))
            }
        }
    }
}

/// The next letter of this name that says what it should; the others are refused.
fn next_readable<'a, T: DeserializeOwned>(
    letters: &'a Letters,
    name: &str,
    waker: &std::task::Waker,
) -> Poll<((Letter, InHand<'a>), Box<RawValue>, T)> {
    while let Some((letter, in_hand)) = letters.take(name, waker) {
        let read = serde_json::from_slice::<T>(&letter.payload)
            .and_then(|answer| Ok((serde_json::from_slice::<Box<RawValue>>(&letter.payload)?, answer)));
        match read {
            Ok((json, answer)) => return Poll::Ready(((letter, in_hand), json, answer)),
            Err(error) => letters.refuse(letter, error.to_string()),
        }
    }
    Poll::Pending
}
