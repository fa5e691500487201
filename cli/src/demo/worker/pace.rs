//! [`Pace`]: the clock of the show, which can be stopped; and [`Dice`], its random numbers.

use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Whether time passes in the show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Running,
    Paused,
    /// No task rests any more, so that what is queued is handled quickly.
    Finishing,
}

/// The pace of all actors, senders and steps.
#[derive(Clone)]
pub struct Pace(watch::Sender<Mode>);

impl Pace {
    pub fn new() -> Self {
        Self(watch::Sender::new(Mode::Running))
    }

    pub fn set(&self, mode: Mode) {
        // `Finishing` is the last one.
        self.0.send_if_modified(|current| {
            let changes = *current != mode && *current != Mode::Finishing;
            if changes {
                *current = mode;
            }
            changes
        });
    }

    pub fn is_finishing(&self) -> bool {
        *self.0.borrow() == Mode::Finishing
    }

    /// Rests for this time, not counting pauses. Returns at once when the show ends.
    pub async fn rest(&self, time: Duration) {
        let mut mode = self.0.subscribe();
        let mut left = time;
        loop {
            let now = *mode.borrow_and_update();
            match now {
                Mode::Finishing => return,
                Mode::Paused => drop(mode.changed().await),
                Mode::Running => {
                    let begun = Instant::now();
                    if tokio::time::timeout(left, mode.changed()).await.is_err() {
                        return;
                    }
                    left = left.saturating_sub(begun.elapsed());
                }
            }
        }
    }
}

/// Random numbers that a seed fixes (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// `salt` separates the numbers of different users of one seed.
    pub fn new(seed: u64, salt: &str) -> Self {
        Self(salt.bytes().fold(seed, |sum, byte| sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    #[test]
    fn seed_fixes_the_numbers() {
        let numbers = |seed, salt| {
            let mut dice = Dice::new(seed, salt);
            [(); 4].map(|()| dice.between(10, 20))
        };
        assert_eq!(numbers(7, "stock"), numbers(7, "stock"));
        assert_ne!(numbers(7, "stock"), numbers(8, "stock"));
        assert_ne!(numbers(7, "stock"), numbers(7, "mail"));
        assert!(numbers(1, "mail").iter().all(|number| (10..=20).contains(number)));
    }

    fn is_over(resting: Pin<&mut impl Future<Output = ()>>) -> bool {
        resting.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test]
    async fn rest_does_not_end_in_a_pause_but_with_the_show() {
        let pace = Pace::new();
        pace.rest(Duration::from_millis(1)).await;
        pace.set(Mode::Paused);
        let mut resting = Box::pin(pace.rest(Duration::ZERO));
        assert!(!is_over(resting.as_mut()));
        pace.set(Mode::Running);
        resting.await;
        pace.set(Mode::Paused);
        let mut resting = Box::pin(pace.rest(Duration::from_secs(3_600)));
        assert!(!is_over(resting.as_mut()));
        pace.set(Mode::Finishing);
        pace.set(Mode::Paused);
        assert!(pace.is_finishing());
        resting.await;
    }
}
