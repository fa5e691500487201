//! The worker: adds up readings.

use core::convert::Infallible;
use pleach_core::{Actor, Context};
use semihosting::println;

pub struct Reading(pub u32);

#[derive(Default)]
pub struct Worker {
    readings: u32,
    sum: u32,
}

impl Actor for Worker {
    type Msg = Reading;
    type Error = Infallible;

    async fn handle(&mut self, Reading(value): Reading, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        (self.readings, self.sum) = (self.readings + 1, self.sum + value);
        if self.readings == 20 {
            println!("the mean of {} readings is {}", self.readings, self.sum / self.readings);
        }
        Ok(())
    }
}
