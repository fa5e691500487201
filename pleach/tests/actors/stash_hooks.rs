//! A13: messages put aside outside a message handler. They are the actor's own, and counted as such after every step.

use crate::common::quiet;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, StashFull, System};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Msg {
    Plain,
    /// Puts this message aside, once.
    Aside,
    Made,
    Unstash,
    Fail,
}

/// Where the actor puts a message of its own aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Started,
    StartedThenFails,
    Signal,
    SignalThenFails,
    Restarting,
    Stopped,
}

struct Hoarder {
    place: Place,
    set_aside: bool,
}

impl Hoarder {
    fn hoard(&self, place: Place, cx: &Context<Self>) -> Result<(), BoxError> {
        let fails = match (place, self.place) {
            (Place::Started, Place::StartedThenFails) => cx.incarnation() == 0,
            (Place::Signal, Place::SignalThenFails) => true,
            (here, there) if here == there => false,
            _ => return Ok(()),
        };
        cx.stash(Msg::Made).map_err(|StashFull(_)| "full")?;
        cx.stash(Msg::Made).map_err(|StashFull(_)| "full")?;
        if fails { Err("no".into()) } else { Ok(()) }
    }
}

impl Actor for Hoarder {
    type Msg = Msg;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.hoard(Place::Started, cx)
    }

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match msg {
            Msg::Plain | Msg::Made => {}
            Msg::Aside if std::mem::replace(&mut self.set_aside, true) => {}
            Msg::Aside => cx.stash(msg).map_err(|StashFull(_)| "full")?,
            Msg::Unstash => cx.unstash_all(),
            Msg::Fail => return Err("no".into()),
        }
        Ok(())
    }

    async fn signal(&mut self, _signal: Signal, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.hoard(Place::Signal, cx)
    }

    async fn restarting(&mut self, _failure: &FailureInfo, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.hoard(Place::Restarting, cx)
    }

    async fn stopped(&mut self, _exit: &Exit, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.hoard(Place::Stopped, cx)
    }
}

/// Runs everything poll by poll; no count may ever pass another that it is a part of.
fn settle_checked(sim: &Sim, system: &System) -> Counts {
    sim.settle();
    let counts = system.counts();
    let Counts { accepted, handled, failed, dead_lettered } = counts;
    assert!(handled <= accepted && failed <= accepted && dead_lettered <= accepted, "{counts:?}");
    assert!(handled + failed + dead_lettered <= accepted, "{counts:?}");
    counts
}

#[test]
fn w5_what_a_hook_puts_aside_is_accepted_and_counted_once() {
    quiet();
    let places =
        [Place::Started, Place::StartedThenFails, Place::Signal, Place::SignalThenFails, Place::Restarting, Place::Stopped];
    for place in places {
        explore(0..20, |sim| {
            let system = sim.system("s");
            let other = system.spawn("other", Props::from_fn(|| (), |(), ()| Ok::<(), BoxError>(()))).unwrap();
            let hoarder = system.spawn("h", Props::new(move || Hoarder { place, set_aside: false })).unwrap();
            settle_checked(sim, &system);
            for msg in [Msg::Plain, Msg::Aside, Msg::Fail, Msg::Aside, Msg::Plain] {
                hoarder.tell(msg).unwrap();
                settle_checked(sim, &system);
            }
            other.stop();
            hoarder.try_send_system(SystemMessage::Watch(other.any())).unwrap();
            let ended = Terminated { id: other.id(), path: other.path(), exit: Exit::Stopped };
            hoarder.try_send_system(SystemMessage::Terminated(ended)).unwrap();
            settle_checked(sim, &system);
            hoarder.tell(Msg::Unstash).unwrap();
            let counts = settle_checked(sim, &system);
            assert!(counts.is_settled() || place == Place::Stopped, "{place:?}: {counts}");
            hoarder.stop();
            let counts = settle_checked(sim, &system);
            assert!(counts.is_settled(), "{place:?}: {counts}");
            assert_eq!(counts, expected(place), "{place:?}");
        });
    }
}

/// Six messages come in, and one of them fails. Two more are the actor's own for each call of the hook.
fn expected(place: Place) -> Counts {
    let plain = Counts { accepted: 6, handled: 5, failed: 1, dead_lettered: 0 };
    match place {
        // Two incarnations, and three if the first fails at once. What is put aside comes back to the next.
        Place::Started => Counts { accepted: 10, handled: 9, ..plain },
        Place::StartedThenFails => Counts { accepted: 12, handled: 11, ..plain },
        Place::Signal | Place::SignalThenFails | Place::Restarting => Counts { accepted: 8, handled: 7, ..plain },
        // Once at the restart, handled after it; once at the end, with nobody left to handle them.
        Place::Stopped => Counts { accepted: 10, handled: 7, dead_lettered: 2, ..plain },
    }
}

#[test]
fn w5_a_signal_takes_no_other_message_back() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let hoarder = system.spawn("h", Props::new(|| Hoarder { place: Place::Signal, set_aside: true })).unwrap();
        hoarder.tell(Msg::Plain).unwrap();
        sim.settle();
        let child = system.spawn("child", Props::from_fn(|| (), |(), ()| Ok::<(), BoxError>(()))).unwrap();
        let ended = Terminated { id: child.id(), path: child.path(), exit: Exit::Stopped };
        hoarder.try_send_system(SystemMessage::Terminated(ended)).unwrap();
        sim.settle();
        assert_eq!(hoarder.counts(), Counts { accepted: 3, handled: 1, failed: 0, dead_lettered: 0 }, "two wait in the stash");
    });
}
