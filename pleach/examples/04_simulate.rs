//! The simulator: finds a rare lost update by trying seeds, and replays it.
//!
//! Run it with `cargo run --package pleach --example 04_simulate`.

use pleach::prelude::*;
use pleach::sim::{Sim, explore, first_failing};

/// An account. It handles one message at a time, so its own state needs no lock.
struct Account {
    cents: u32,
}

enum Msg {
    Balance(Reply<u32>),
    SetBalance(u32),
    Withdraw(u32),
}

impl Actor for Account {
    type Msg = Msg;
    type Error = std::convert::Infallible;

    async fn handle(&mut self, msg: Msg, _cx: &mut Context<Self>) -> Result<(), Self::Error> {
        match msg {
            Msg::Balance(reply) => reply.send(self.cents),
            Msg::SetBalance(cents) => self.cents = cents,
            Msg::Withdraw(cents) => self.cents -= cents,
        }
        Ok(())
    }
}

/// Two customers withdraw 10 cents each, in two messages (ask, then set) or in one message.
fn left_after(sim: &Sim, in_one_message: bool) -> u32 {
    let system = sim.system("bank");
    let account = system.spawn("account", Props::new(|| Account { cents: 100 })).unwrap();
    let customers = sim.scope();
    for _ in 0..2 {
        let account = account.clone();
        let withdraw = async move {
            if in_one_message {
                return account.send(Msg::Withdraw(10)).await.map_err(pleach::Error::from);
            }
            let cents = account.ask(Msg::Balance).await?;
            Ok(account.send(Msg::SetBalance(cents - 10)).await?)
        };
        customers.launch(withdraw).unwrap();
    }
    sim.run(async {
        customers.wait_all().await.unwrap();
        account.ask(Msg::Balance).await.unwrap()
    })
}

fn main() {
    // A planted race: under some seeds both customers ask before either sets. The panics are
    // expected, so they are not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let seed = first_failing(0..1_000, |sim| assert_eq!(left_after(sim, false), 80));
    drop(std::panic::take_hook());
    let seed = seed.expect("the race shows within 1,000 seeds");

    // This seed loses the update every time, by the same steps.
    let replay = || {
        let sim = Sim::new(seed);
        (left_after(&sim, false), sim.trace_hash())
    };
    let (left, hash) = replay();
    println!("seed {seed} loses an update: {left} cents left, trace {hash:016x}");
    assert_eq!(left, 90);
    assert_eq!(replay(), (left, hash));

    // The fix: one message instead of two. A test needs only this line.
    explore(0..1_000, |sim| assert_eq!(left_after(sim, true), 80));
    println!("1,000 seeds pass with the fix");
}
