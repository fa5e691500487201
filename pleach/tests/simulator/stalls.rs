//! A simulation that cannot continue says who waits for what.

use crate::common::{Gate, Job, Log, TestActor};
use pleach::sim::{FaultKind, Sim, explore};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a future that never ends, and returns the text of the panic.
fn stalled(sim: &Sim, future: impl Future<Output = ()>) -> String {
    let payload = catch_unwind(AssertUnwindSafe(|| sim.run(future))).unwrap_err();
    *payload.downcast::<String>().unwrap()
}

#[test]
fn d5_stall_names_members_and_what_they_wait_for() {
    explore(0..20, |sim| {
        let system = sim.system("shop");
        let (waiter, asked) = (TestActor::spawn(&system, "waiter"), TestActor::spawn(&system, "asked"));
        TestActor::spawn(&system, "idle");
        asked.tell(Job::Pass(Gate::new(), 1)).unwrap();
        let to = asked.clone();
        let ask = |_| async move { to.ask(|reply| Job::Answer(reply, 1)).await.map(drop).map_err(Into::into) };
        waiter.tell(Job::work(ask)).unwrap();
        let scope = system.scope("jobs").unwrap();
        let gate = Gate::new();
        scope.launch(gate.pass()).unwrap();
        let exit = asked.exited();
        scope.launch(async move { drop(exit.await) }).unwrap();
        let text = stalled(sim, async { drop(asked.exited().await) });
        for line in [
            &format!("seed {}: simulation stalled: no task is ready and no timer is set", sim.seed()),
            "waiting:\n",
            "  /user/waiter (actor) waits for an answer from /user/asked\n",
            "  /user/asked (actor) handles a message and awaits something outside of the tree: a channel, a lock or I/O; 1 more are queued",
            "(task) awaits something outside of the tree",
            "(task) waits for the exit of /user/asked",
            "\nidle, with an empty mailbox: /user/idle",
        ] {
            assert!(text.contains(line), "{line:?} is missing in:\n{text}");
        }
    });
}

#[test]
fn d5_stall_names_a_wait_cycle() {
    let sim = Sim::new(1);
    let system = sim.system("shop");
    let (one, two) = (TestActor::spawn(&system, "one"), TestActor::spawn(&system, "two"));
    for (from, to) in [(&one, &two), (&two, &one)] {
        let exit = to.exited();
        let wait = |_| async move {
            exit.await;
            Ok(())
        };
        from.tell(Job::work(wait)).unwrap();
    }
    let text = stalled(&sim, async { drop(one.exited().await) });
    assert!(text.contains("waiting:\n  wait cycle: /user/one -> /user/two -> /user/one\n"), "{text}");
}

#[test]
fn d5_stall_names_suspended_actors_and_silent_io() {
    let sim = Sim::new(1);
    sim.inject(FaultKind::IoSilent.nth(1).on("gateway"));
    let system = sim.system("shop");
    let actor = system.spawn("paused", TestActor::props(&Log::new())).unwrap();
    actor.any().suspend().unwrap();
    sim.settle();
    actor.tell(Job::Note(1)).unwrap();
    let io = sim.io("gateway", async {});
    let text = stalled(&sim, io);
    assert!(text.contains("/user/paused (actor) is suspended until it is resumed; 1 messages are queued"), "{text}");
    assert!(text.contains("I/O \"gateway\" never completes: injected fault io-silent"), "{text}");
}

#[test]
fn d5_stall_of_a_plain_future_says_so() {
    let sim = Sim::new(1);
    let text = stalled(&sim, std::future::pending());
    assert!(text.ends_with("the future passed to `run` waits for something else"), "{text}");
}

#[test]
fn d5_stall_text_is_bounded() {
    let sim = Sim::new(1);
    let system = sim.system("shop");
    for n in 0..100 {
        TestActor::spawn(&system, &format!("idle-{n}"));
        TestActor::spawn(&system, &format!("busy-{n}")).tell(Job::Pass(Gate::new(), 1)).unwrap();
    }
    let text = stalled(&sim, std::future::pending());
    assert_eq!(text.matches("and 68 more").count(), 2, "{text}");
    assert!(text.lines().count() < 40, "{text}");
}
