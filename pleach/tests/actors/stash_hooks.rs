//! A13: messages that hooks stash. They count as accepted, and the counts are right after every
//! step.

use crate::common::quiet;
use pleach::BoxError;
use pleach::actor::StashFull;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::system::System;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Msg {
    Plain,
    /// Is stashed once, then handled.
    StashOnce,
    FromHook,
    Unstash,
    Fail,
}

/// The hook in which the actor stashes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    Started,
    StartedThenFails,
    Signal,
    SignalThenFails,
    Restarting,
    Stopped,
}

struct StashingActor {
    hook: Hook,
    has_stashed: bool,
}

impl StashingActor {
    fn stash_in(&self, hook: Hook, cx: &Context<Self>) -> Result<(), BoxError> {
        let fails = match (hook, self.hook) {
            (Hook::Started, Hook::StartedThenFails) => cx.incarnation() == 0,
            (Hook::Signal, Hook::SignalThenFails) => true,
            (here, there) if here == there => false,
            _ => return Ok(()),
        };
        cx.stash(Msg::FromHook).map_err(|StashFull(_)| "full")?;
        cx.stash(Msg::FromHook).map_err(|StashFull(_)| "full")?;
        if fails { Err("no".into()) } else { Ok(()) }
    }
}

impl Actor for StashingActor {
    type Msg = Msg;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.stash_in(Hook::Started, cx)
    }

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match msg {
            Msg::Plain | Msg::FromHook => {}
            Msg::StashOnce if std::mem::replace(&mut self.has_stashed, true) => {}
            Msg::StashOnce => cx.stash(msg).map_err(|StashFull(_)| "full")?,
            Msg::Unstash => cx.unstash_all(),
            Msg::Fail => return Err("no".into()),
        }
        Ok(())
    }

    async fn signal(&mut self, _signal: Signal, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.stash_in(Hook::Signal, cx)
    }

    async fn restarting(&mut self, _failure: &FailureInfo, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.stash_in(Hook::Restarting, cx)
    }

    async fn stopped(&mut self, _exit: &Exit, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.stash_in(Hook::Stopped, cx)
    }
}

/// Runs until idle and checks that no count exceeds the accepted messages.
fn settle_checked(sim: &Sim, system: &System) -> Counts {
    sim.settle();
    let counts = system.counts();
    let Counts { accepted, handled, failed, dead_lettered } = counts;
    assert!(handled <= accepted && failed <= accepted && dead_lettered <= accepted, "{counts:?}");
    assert!(handled + failed + dead_lettered <= accepted, "{counts:?}");
    counts
}

#[test]
fn a13_message_stashed_by_a_hook_is_counted_once() {
    quiet();
    let hooks = [Hook::Started, Hook::StartedThenFails, Hook::Signal, Hook::SignalThenFails, Hook::Restarting, Hook::Stopped];
    for hook in hooks {
        explore(0..20, |sim| {
            let system = sim.system("s");
            let other = system.spawn("other", Props::from_fn(|| (), |(), ()| Ok::<(), BoxError>(()))).unwrap();
            let actor = system.spawn("h", Props::new(move || StashingActor { hook, has_stashed: false })).unwrap();
            settle_checked(sim, &system);
            for msg in [Msg::Plain, Msg::StashOnce, Msg::Fail, Msg::StashOnce, Msg::Plain] {
                actor.tell(msg).unwrap();
                settle_checked(sim, &system);
            }
            other.stop();
            actor.try_send_system(SystemMessage::Watch(other.any())).unwrap();
            let ended = Terminated { id: other.id(), path: other.path(), exit: Exit::Stopped };
            actor.try_send_system(SystemMessage::Terminated(ended)).unwrap();
            settle_checked(sim, &system);
            actor.tell(Msg::Unstash).unwrap();
            let counts = settle_checked(sim, &system);
            assert!(counts.is_settled() || hook == Hook::Stopped, "{hook:?}: {counts}");
            actor.stop();
            let counts = settle_checked(sim, &system);
            assert!(counts.is_settled(), "{hook:?}: {counts}");
            assert_eq!(counts, expected(hook), "{hook:?}");
        });
    }
}

/// Six messages are sent, and one of them fails. Each call of the hook adds two.
fn expected(hook: Hook) -> Counts {
    let plain = Counts { accepted: 6, handled: 5, failed: 1, dead_lettered: 0 };
    match hook {
        // Two incarnations; three if the first fails at once. The next incarnation gets the stash.
        Hook::Started => Counts { accepted: 10, handled: 9, ..plain },
        Hook::StartedThenFails => Counts { accepted: 12, handled: 11, ..plain },
        Hook::Signal | Hook::SignalThenFails | Hook::Restarting => Counts { accepted: 8, handled: 7, ..plain },
        // Once at the restart, handled after it; once at the end, when no incarnation is left.
        Hook::Stopped => Counts { accepted: 10, handled: 7, dead_lettered: 2, ..plain },
    }
}

#[test]
fn a13_signal_handler_takes_back_no_other_message() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let actor = system.spawn("h", Props::new(|| StashingActor { hook: Hook::Signal, has_stashed: true })).unwrap();
        actor.tell(Msg::Plain).unwrap();
        sim.settle();
        let child = system.spawn("child", Props::from_fn(|| (), |(), ()| Ok::<(), BoxError>(()))).unwrap();
        let ended = Terminated { id: child.id(), path: child.path(), exit: Exit::Stopped };
        actor.try_send_system(SystemMessage::Terminated(ended)).unwrap();
        sim.settle();
        assert_eq!(actor.counts(), Counts { accepted: 3, handled: 1, failed: 0, dead_lettered: 0 }, "two messages are stashed");
    });
}
