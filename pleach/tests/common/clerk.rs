//! The workers of the tests of pools: a `Clerk` writes down its place and what it is told.

use crate::common::{Gate, INJECTED, Log};
use pleach::BoxError;
use pleach::prelude::*;

/// Workers that write down their place and what they are told.
pub fn clerks(log: &Log<(usize, u32)>) -> impl Fn(usize) -> Props<Clerk> + Send + Sync + 'static {
    let log = log.clone();
    move |place| {
        let log = log.clone();
        Props::new(move || Clerk { place, log: log.clone() })
    }
}

pub struct Clerk {
    place: usize,
    log: Log<(usize, u32)>,
}

pub enum Msg {
    Note(u32),
    Place(Reply<usize>),
    Fail(u32),
    Pass(Gate),
    Stop,
}

pub fn key_of(msg: &Msg) -> u32 {
    match msg {
        Msg::Note(n) | Msg::Fail(n) => *n,
        _ => 0,
    }
}

impl Actor for Clerk {
    type Msg = Msg;
    type Error = BoxError;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match msg {
            Msg::Note(n) => self.log.push((self.place, n)),
            Msg::Place(reply) => reply.send(self.place),
            Msg::Fail(n) => return Err(format!("{INJECTED} {n}").into()),
            Msg::Pass(gate) => gate.pass().await,
            Msg::Stop => cx.stop(),
        }
        Ok(())
    }
}

pub fn many_restarts() -> OneForOne {
    OneForOne::new().intensity(1_000, Duration::from_secs(1))
}

/// How many entries each place has.
pub fn shares(entries: &[(usize, u32)], places: usize) -> Vec<usize> {
    (0..places).map(|place| entries.iter().filter(|entry| entry.0 == place).count()).collect()
}
