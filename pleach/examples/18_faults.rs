//! Faults by seed: finds a double charge after a lost answer, names the fault, and replays it.
//!
//! Run it with `cargo run --package pleach --example 18_faults`.

use pleach::prelude::*;
use pleach::sim::{Exploration, FaultKind, IoSite, Sim, assert_conserved};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A payment gateway, as the test plays it. It ignores a key that it has seen before.
#[derive(Clone, Default)]
struct Gateway {
    charges: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Gateway {
    async fn charge(self, key: String, cents: u32) {
        self.charges.lock().unwrap().insert(key, cents);
    }

    fn total(&self) -> u32 {
        self.charges.lock().unwrap().values().sum()
    }
}

/// A clerk that charges each order, and tries again if the gateway does not answer within 5 s.
struct Clerk {
    line: IoSite,
    gateway: Gateway,
    /// The fix: all tries of an order have the same key.
    has_one_key: bool,
}

impl Actor for Clerk {
    type Msg = (u32, Reply<()>);
    type Error = pleach::BoxError;

    async fn handle(&mut self, (order, reply): Self::Msg, cx: &mut Context<Self>) -> Result<(), pleach::BoxError> {
        for attempt in 0.. {
            let key = if self.has_one_key { format!("{order}") } else { format!("{order}, try {attempt}") };
            let request = self.line.call(self.gateway.clone().charge(key, 10));
            if cx.timeout(Duration::from_secs(5), request).await.is_ok() {
                break;
            }
        }
        reply.send(());
        Ok(())
    }
}

fn three_orders_cost_30(sim: &Sim, has_one_key: bool) {
    // The one line that asks for faults.
    sim.inject([FaultKind::IoLate.rate(0.2), FaultKind::IoSilent.rate(0.02), FaultKind::WakeLate.rate(0.1)]);
    let (system, gateway) = (sim.system("shop"), Gateway::default());
    let clerk = Clerk { line: sim.io_site("gateway"), gateway: gateway.clone(), has_one_key };
    let clerk = system.spawn("clerk", Props::once(clerk)).unwrap();
    sim.run(async {
        for order in 1..=3 {
            clerk.ask(|reply| (order, reply)).timeout(Duration::from_secs(60)).await.unwrap();
        }
        clerk.close();
        clerk.exited().await;
    });
    assert_conserved(&system);
    assert_eq!(gateway.total(), 30, "a customer paid twice");
}

fn main() {
    // The search prints nothing; `run`, as in a test, prints the seed and the faults and panics.
    let found = Exploration::new(0..1_000).first_failure(|sim| three_orders_cost_30(sim, false));
    let found = found.expect("the double charge shows within 1,000 seeds");
    println!("{found}");
    assert_eq!(found.needed.len(), 1, "one lost answer is enough");
    assert_eq!(found.needed[0].kind, FaultKind::IoSilent);

    // The same seed with only that fault fails every time; with the fix it passes.
    assert!(found.replay(|sim| three_orders_cost_30(sim, false)));
    assert!(!found.replay(|sim| three_orders_cost_30(sim, true)));

    // A test needs only this line.
    Exploration::new(0..1_000).run(|sim| three_orders_cost_30(sim, true));
    println!("1,000 seeds pass with the fix");
}
