//! Repeats a failure of /user/tills/cash while it handled u32.
//!
//! Reason: nothing paid
//! Decided by /user/tills: restart (strategy one_for_one, restart 1 of 3 in 5 s)

use crate::{message, props};
use pleach::prelude::*;
use pleach::sim::explore;

#[test]
fn cash_does_not_fail_while_handling_u32() {
    explore(0..100, |sim| {
        let system = sim.system("test");
        let above = system.supervisor("tills", OneForOne::new().restart_limit(3, Duration::from_secs(5))).expect("a new name");
        let actor = above.spawn("cash", props()).expect("a new name");
        actor.tell(message()).expect("it accepts messages");
        sim.advance(Duration::from_secs(60));
        let failure = actor.any().info().last_failure;
        assert!(failure.is_none(), "seed {}: {failure:?}", sim.seed());
    });
}
