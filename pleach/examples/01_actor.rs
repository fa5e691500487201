//! An actor: a state, a message enum and a handler. Three ways to send: `tell`, `send` and `ask`.
//!
//! Run it with `cargo run --package pleach --example 01_actor`.

use pleach::prelude::*;
use std::fmt;

struct Budget {
    cents: u32,
}

enum Msg {
    Spend(u32),
    Left(Reply<u32>),
}

#[derive(Debug)]
struct Overdrawn(u32);

impl fmt::Display for Overdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot spend {} cents: not enough left", self.0)
    }
}

impl std::error::Error for Overdrawn {}

impl Actor for Budget {
    type Msg = Msg;
    type Error = Overdrawn;

    async fn handle(&mut self, msg: Msg, _cx: &mut Context<Self>) -> Result<(), Overdrawn> {
        match msg {
            Msg::Spend(n) => self.cents = self.cents.checked_sub(n).ok_or(Overdrawn(n))?,
            Msg::Left(reply) => reply.send(self.cents),
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let system = ActorSystem::new("shop")?;
    let props = Props::new(|| Budget { cents: 500 }).mailbox(Mailbox::bounded(64));
    let budget = system.spawn("budget", props)?;
    println!("started {}", budget.path());

    // `tell` never waits; a full mailbox returns the message. `send` waits for room in the mailbox.
    budget.tell(Msg::Spend(120))?;
    budget.send(Msg::Spend(30)).await?;

    // `ask` waits for the reply, or returns the reason why none will come.
    let left = budget.ask(Msg::Left).await?;
    println!("left: {left}");
    assert_eq!(left, 350);

    // `close` ends the input: the actor handles all queued messages and ends.
    budget.close();
    assert_eq!(budget.exited().await, Exit::Closed);
    assert!(matches!(budget.tell(Msg::Spend(1)), Err(SendError::Closed(Msg::Spend(1)))));

    system.shutdown(Duration::from_secs(5)).await?;
    println!("{}", system.counts());
    assert!(system.counts().is_settled());
    Ok(())
}
