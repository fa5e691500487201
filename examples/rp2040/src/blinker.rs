//! The blinker: an actor that owns the LED while it lives.

use core::cell::RefCell;
use core::fmt;
use core::time::Duration;
use embassy_rp::gpio::Output;
use pleach_core::{Actor, ActorRef, Arc, Context};
use pleach_embassy::WatchdogMsg;

/// The LED, which outlives each incarnation of the blinker.
pub type Led = Arc<critical_section::Mutex<RefCell<Output<'static>>>>;

pub fn shared(led: Output<'static>) -> Led {
    Arc::new(critical_section::Mutex::new(RefCell::new(led)))
}

/// The most blinks in a row.
const BLINKS_MAX: u32 = 4;

pub struct Blinker {
    led: Led,
    watchdog: ActorRef<WatchdogMsg>,
    blinks: u32,
}

pub enum Msg {
    /// The button was pressed.
    Press,
    /// It is time to blink.
    Blink,
}

#[derive(Debug)]
pub struct TooManyPresses;

impl fmt::Display for TooManyPresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the button was pressed too often")
    }
}

impl core::error::Error for TooManyPresses {}

impl Blinker {
    pub fn new(led: Led, watchdog: ActorRef<WatchdogMsg>) -> Self {
        Self { led, watchdog, blinks: 1 }
    }

    fn toggle(&self) {
        critical_section::with(|section| self.led.borrow_ref_mut(section).toggle());
    }
}

impl Actor for Blinker {
    type Msg = Msg;
    type Error = TooManyPresses;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), TooManyPresses> {
        cx.send_every(Duration::from_millis(900), || Msg::Blink);
        Ok(())
    }

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), TooManyPresses> {
        match msg {
            Msg::Press if self.blinks == BLINKS_MAX => return Err(TooManyPresses),
            Msg::Press => self.blinks += 1,
            Msg::Blink => {
                for _ in 0..2 * self.blinks {
                    self.toggle();
                    // In an actor, sleeps are those of its context: a timer of Embassy needs a task
                    // of Embassy.
                    cx.sleep(Duration::from_millis(60)).await;
                }
                drop(self.watchdog.tell(WatchdogMsg::Alive(0)));
            }
        }
        Ok(())
    }
}
