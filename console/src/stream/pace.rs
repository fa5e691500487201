//! [`Pace`]: when a stream may send its next frame. [`rest_after`]: when a view is looked at again.
//!
//! At most four frames in any second. Three of them are regular; the fourth is kept for views that
//! the browser has just begun to watch, so that a click is answered at once.

use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// The most frames in a second.
pub(super) const FRAMES_PER_SECOND: usize = 4;

/// The time between two regular frames.
const REGULAR: Duration = Duration::from_millis(334);

/// After a look there is a rest of this many times as long, up to [`LONG_REST`]; and of at least
/// [`REST_PER_LONG_LOOK`] times as long. So looking at a large system takes little of its time.
const REST_PER_LOOK: u32 = 20;
const LONG_REST: Duration = Duration::from_secs(5);
const REST_PER_LONG_LOOK: u32 = 3;

/// Returns how long a view is not looked at after a look that took so long.
pub(super) fn rest_after(look: Duration) -> Duration {
    (look * REST_PER_LOOK).min(LONG_REST).max(look * REST_PER_LONG_LOOK)
}

/// The frames that were sent lately.
#[derive(Debug, Default)]
pub(super) struct Pace {
    sent: VecDeque<Instant>,
}

impl Pace {
    /// Returns when the next frame may be sent. `is_urgent`: it answers a new watch.
    pub(super) fn next(&self, is_urgent: bool, now: Instant) -> Instant {
        let room = match self.sent.front() {
            Some(oldest) if self.sent.len() == FRAMES_PER_SECOND => *oldest + Duration::from_secs(1),
            _ => now,
        };
        match self.sent.back() {
            Some(last) if !is_urgent => room.max(*last + REGULAR),
            _ => room,
        }
    }

    /// Notes that a frame is sent.
    pub(super) fn sent(&mut self, now: Instant) {
        if self.sent.len() == FRAMES_PER_SECOND {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends as fast as allowed for `seconds`, and returns when.
    fn frames(is_urgent: impl Fn(usize) -> bool, seconds: u64) -> Vec<Duration> {
        let (begin, mut pace, mut frames) = (Instant::now(), Pace::default(), Vec::new());
        let mut now = begin;
        while now < begin + Duration::from_secs(seconds) {
            now = pace.next(is_urgent(frames.len()), now).max(now);
            pace.sent(now);
            frames.push(now - begin);
        }
        frames
    }

    #[test]
    fn k6_no_second_has_more_than_four_frames() {
        for every in 1..7 {
            let frames = frames(|number| number % every == 0, 20);
            for window in frames.windows(FRAMES_PER_SECOND + 1) {
                assert!(window[FRAMES_PER_SECOND] - window[0] >= Duration::from_secs(1), "{window:?}");
            }
        }
    }

    #[test]
    fn k2_a_long_look_is_followed_by_a_long_rest() {
        assert_eq!(rest_after(Duration::from_millis(5)), Duration::from_millis(100));
        assert_eq!(rest_after(Duration::from_millis(200)), Duration::from_secs(4));
        assert_eq!(rest_after(Duration::from_secs(1)), LONG_REST);
        assert_eq!(rest_after(Duration::from_secs(10)), Duration::from_secs(30));
    }

    #[test]
    fn k6_a_new_watch_does_not_wait_for_regular_frames() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        pace.sent(begin);
        let soon = begin + Duration::from_millis(5);
        assert_eq!(pace.next(true, soon), soon);
        assert_eq!(pace.next(false, soon), begin + REGULAR);
    }
}
