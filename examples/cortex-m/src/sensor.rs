//! A sensor: reads its bus every 10 ms and sends what it reads to the worker.

use crate::board;
use crate::worker::Reading;
use core::fmt;
use core::time::Duration;
use pleach_core::{Actor, ActorRef, Context};
use pleach_embassy::WatchdogMsg;

pub struct Sensor {
    pub to: ActorRef<Reading>,
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
        cx.send_every(Duration::from_millis(10), || ());
        Ok(())
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BusTimeout> {
        let reading = board::read_bus().ok_or(BusTimeout)?;
        // A full mailbox returns the reading: the next one is more recent anyway.
        drop(self.to.try_send(Reading(reading)));
        drop(self.watchdog.tell(WatchdogMsg::Alive(0)));
        Ok(())
    }
}
