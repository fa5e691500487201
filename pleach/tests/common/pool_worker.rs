//! For tests of pools: a worker that logs its index and each number it receives.

use crate::common::{Gate, INJECTED, Log};
use pleach::BoxError;
use pleach::prelude::*;

/// Builds the props of the worker with a given index. All workers write to `log`.
pub fn worker_props(log: &Log<(usize, u32)>) -> impl Fn(usize) -> Props<PoolWorker> + Send + Sync + 'static {
    let log = log.clone();
    move |index| {
        let log = log.clone();
        Props::new(move || PoolWorker { index, log: log.clone() })
    }
}

pub struct PoolWorker {
    index: usize,
    log: Log<(usize, u32)>,
}

pub enum Msg {
    Note(u32),
    Index(Reply<usize>),
    Fail(u32),
    Pass(Gate),
    Stop,
}

/// The routing key of a message.
pub fn key_of(msg: &Msg) -> u32 {
    match msg {
        Msg::Note(n) | Msg::Fail(n) => *n,
        _ => 0,
    }
}

impl Actor for PoolWorker {
    type Msg = Msg;
    type Error = BoxError;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
        match msg {
            Msg::Note(n) => self.log.push((self.index, n)),
            Msg::Index(reply) => reply.send(self.index),
            Msg::Fail(n) => return Err(format!("{INJECTED} {n}").into()),
            Msg::Pass(gate) => gate.pass().await,
            Msg::Stop => cx.stop(),
        }
        Ok(())
    }
}

pub fn many_restarts() -> OneForOne {
    OneForOne::new().restart_limit(1_000, Duration::from_secs(1))
}

/// Counts the entries of each worker index.
pub fn shares(entries: &[(usize, u32)], workers: usize) -> Vec<usize> {
    (0..workers).map(|index| entries.iter().filter(|entry| entry.0 == index).count()).collect()
}
