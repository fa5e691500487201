//! The worker: handles readings and button presses, one at a time.

use crate::sensor::Bus;
use core::convert::Infallible;
use pleach_core::{Actor, Context};
use std::sync::Arc;

/// What the worker handles.
pub enum Job {
    /// A reading of a sensor.
    Reading(u32),
    /// The button was pressed.
    Press,
}

pub struct Worker {
    bus: Arc<Bus>,
    readings: u32,
    sum: u32,
    presses: u32,
}

impl Worker {
    pub fn new(bus: Arc<Bus>) -> Self {
        Self { bus, readings: 0, sum: 0, presses: 0 }
    }
}

impl Actor for Worker {
    type Msg = Job;
    type Error = Infallible;

    async fn handle(&mut self, job: Job, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        match job {
            Job::Reading(value) => (self.readings, self.sum) = (self.readings + 1, self.sum + value),
            Job::Press => {
                self.presses += 1;
                let mean = self.sum.checked_div(self.readings).unwrap_or_default();
                println!("press {}: the mean of the readings is {mean}", self.presses);
                if self.presses == 2 {
                    self.bus.break_permanently();
                }
            }
        }
        Ok(())
    }
}
