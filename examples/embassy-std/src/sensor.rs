//! A sensor: reads its bus every 20 ms and sends what it reads to the worker.

use crate::worker::Job;
use core::fmt;
use core::time::Duration;
use pleach_core::{Actor, ActorRef, Context};
use pleach_embassy::WatchdogMsg;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A bus that fails for its next reads.
pub struct Bus {
    failures_left: AtomicU32,
}

impl Bus {
    pub fn broken_for(reads: u32) -> Self {
        Self { failures_left: AtomicU32::new(reads) }
    }

    /// Makes every further read fail.
    pub fn break_permanently(&self) {
        self.failures_left.store(u32::MAX, Ordering::Relaxed);
    }

    fn read(&self) -> Result<u32, BusTimeout> {
        let less = |left: u32| left.checked_sub(1);
        match self.failures_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => Err(BusTimeout),
            Err(_) => Ok(21),
        }
    }
}

/// An actor that reads one bus.
pub struct Sensor {
    pub party: usize,
    pub bus: Arc<Bus>,
    pub to: ActorRef<Job>,
    pub watchdog: ActorRef<WatchdogMsg>,
}

#[derive(Debug)]
pub struct BusTimeout;

impl fmt::Display for BusTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer on the bus")
    }
}

impl core::error::Error for BusTimeout {}

impl Actor for Sensor {
    type Msg = ();
    type Error = BusTimeout;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BusTimeout> {
        cx.send_every(Duration::from_millis(20), || ());
        Ok(())
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BusTimeout> {
        let reading = self.bus.read()?;
        // A full mailbox returns the reading: the next one is more recent anyway.
        drop(self.to.try_send(Job::Reading(reading)));
        drop(self.watchdog.tell(WatchdogMsg::Alive(self.party)));
        Ok(())
    }
}
