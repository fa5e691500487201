//! Actors: a state, one message type and a handler, run by one task behind a mailbox.
//!
//! - [`Actor`] is the trait to implement; its handlers are plain `async fn`s. [`Props`] say how to
//!   make an actor, and make it again after a restart.
//! - [`ActorRef`] is the address. `tell` never waits, `send` waits for room in the mailbox, `ask`
//!   waits for the reply. A message that is not accepted comes back in the [`SendError`].
//! - [`Context`] is what a handler knows of its surroundings: children, timers, stash, watches.
//! - [`Mailbox`] sets the capacity (1,024 messages by default) and what happens when it is full.
//!
//! ```
//! use pleach::prelude::*;
//!
//! struct Budget { cents: u32 }
//!
//! enum Msg { Spend(u32), Left(Reply<u32>) }
//!
//! impl Actor for Budget {
//!     type Msg = Msg;
//!     type Error = String; // any error type
//!
//!     async fn handle(&mut self, msg: Msg, _cx: &mut Context<Self>) -> Result<(), String> {
//!         match msg {
//!             Msg::Spend(n) => self.cents = self.cents.checked_sub(n).ok_or(format!("{n} is too much"))?,
//!             Msg::Left(reply) => reply.send(self.cents),
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! let system = ActorSystem::new("shop")?;
//! let budget = system.spawn("budget", Props::new(|| Budget { cents: 500 }).mailbox(Mailbox::bounded(64)))?;
//!
//! budget.tell(Msg::Spend(120))?; // does not wait: a full mailbox returns the message
//! budget.send(Msg::Spend(30)).await?; // waits for room
//! assert_eq!(budget.ask(Msg::Left).await?, 350); // waits for the reply
//!
//! system.shutdown(Duration::from_secs(5)).await?; // handles queued messages first
//! # Ok(())
//! # }
//! ```
//!
//! Three calls end an actor, and every other member of the tree: [`stop`](ActorRef::stop) after the
//! current message, [`close`](ActorRef::close) after all queued messages,
//! [`cancel`](ActorRef::cancel) at the next await. The [`Exit`](crate::scope::Exit) says which it
//! was.

pub use pleach_core::{
    Actor, ActorId, ActorPath, ActorRef, AnyRef, Ask, AskError, BoxStream, Context, ContextFnActor, Counts, Exited, FnActor,
    MAILBOX_CAPACITY_DEFAULT, MESSAGES_PER_POLL_MAX, Mailbox, NAME_LEN_MAX, Name, NameError, NameFault, PathError, Priority,
    PriorityEnvelope, Props, Recipient, RecipientAsk, RecipientSend, Refusal, Reply, SIGNALS_IN_A_ROW_MAX,
    STASH_CAPACITY_DEFAULT, SendError, Sending, Signal, SpawnError, SpawnStarted, SpawnStartedError, StashFull, SystemMessage,
    Terminated, TimerError, TimerKey, Unsent,
};
