//! [`Watchdog`]: an actor that feeds a hardware watchdog while all parties report that they work.

use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use core::time::Duration;
use pleach_core::{Actor, Context, Props};

/// An actor that feeds a hardware watchdog while all parties report that they work.
///
/// Each party is an actor that sends [`WatchdogMsg::Alive`] with its number. At the end of each
/// period the watchdog feeds the hardware if every party has reported within that period. An actor
/// that hangs, waits for its restart, or was given up by its supervisor does not report. So the
/// feeding stops at the latest one period later, and the hardware resets the chip.
///
/// Set the timeout of the hardware to at least two periods.
///
/// A party that is late is reported once as a failure, [`NoSignOfLife`], until all parties have
/// reported again. The watchdog itself continues.
///
/// # Examples
///
/// ```
/// use core::time::Duration;
/// use pleach_core::{Dispatcher, System};
/// use pleach_embassy::{Watchdog, WatchdogMsg};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// static FED: AtomicU32 = AtomicU32::new(0);
///
/// let sim = Dispatcher::seeded(1);
/// let system = System::builder("board", sim.runtime()).build().unwrap();
/// let feed = || {
///     FED.fetch_add(1, Ordering::Relaxed);
/// };
/// let props = Watchdog::props(&["sensor", "radio"], Duration::from_secs(1), feed);
/// let watchdog = system.spawn("watchdog", props).unwrap();
/// sim.drain_ready();
///
/// watchdog.tell(WatchdogMsg::Alive(0)).unwrap();
/// watchdog.tell(WatchdogMsg::Alive(1)).unwrap();
/// sim.run_until_time(pleach_core::Instant::after_start(Duration::from_secs(1)));
/// assert_eq!(FED.load(Ordering::Relaxed), 1);
///
/// // The radio reports no more, so the hardware is not fed again.
/// watchdog.tell(WatchdogMsg::Alive(0)).unwrap();
/// sim.run_until_time(pleach_core::Instant::after_start(Duration::from_secs(10)));
/// assert_eq!(FED.load(Ordering::Relaxed), 1);
/// ```
pub struct Watchdog<F> {
    parties: &'static [&'static str],
    has_reported: Vec<bool>,
    period: Duration,
    feed: F,
    is_late_reported: bool,
}

/// A message that a [`Watchdog`] receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogMsg {
    /// The party with this number works. Numbers count from 0, in the order of the names. A number
    /// without a name is reported as a failure.
    Alive(usize),
    /// A period is over. The watchdog's own timer sends it.
    PeriodOver,
}

impl<F: FnMut() + Send + 'static> Watchdog<F> {
    /// Returns the props of a watchdog for the `parties` with these names. It calls `feed` at the
    /// end of each `period` in which all parties have reported. Without parties it always calls it.
    pub fn props(parties: &'static [&'static str], period: Duration, feed: F) -> Props<Self> {
        let has_reported = vec![false; parties.len()];
        Props::once(Self { parties, has_reported, period, feed, is_late_reported: false })
    }

    fn end_period(&mut self, cx: &mut Context<Self>) {
        match self.has_reported.iter().position(|has| !has) {
            None => {
                (self.feed)();
                self.is_late_reported = false;
            }
            Some(late) if !self.is_late_reported => {
                self.is_late_reported = true;
                cx.notify_failure(NoSignOfLife { party: self.parties[late], period: self.period });
            }
            Some(_) => {}
        }
        self.has_reported.fill(false);
    }
}

impl<F: FnMut() + Send + 'static> Actor for Watchdog<F> {
    type Msg = WatchdogMsg;
    type Error = Infallible;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Infallible> {
        cx.send_every(self.period, || WatchdogMsg::PeriodOver);
        Ok(())
    }

    async fn handle(&mut self, msg: WatchdogMsg, cx: &mut Context<Self>) -> Result<(), Infallible> {
        match msg {
            WatchdogMsg::Alive(party) => match self.has_reported.get_mut(party) {
                Some(has_reported) => *has_reported = true,
                None => drop(cx.notify_failure(UnknownParty { party, parties: self.parties.len() })),
            },
            WatchdogMsg::PeriodOver => self.end_period(cx),
        }
        Ok(())
    }
}

/// A party did not report within a period, so the hardware watchdog was not fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSignOfLife {
    /// The name of the first party that did not report.
    pub party: &'static str,
    /// The period in which each party must report.
    pub period: Duration,
}

impl fmt::Display for NoSignOfLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} did not report within {:?}: the hardware watchdog is not fed and resets the chip",
            self.party, self.period
        )
    }
}

impl core::error::Error for NoSignOfLife {}

/// A report with a number that no party has.
#[derive(Debug)]
struct UnknownParty {
    party: usize,
    parties: usize,
}

impl fmt::Display for UnknownParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watchdog party {} does not exist: numbers are below {}", self.party, self.parties)
    }
}

impl core::error::Error for UnknownParty {}
