//! The customers: one task per actor sends it messages, and a bad one now and then.

use super::cast::{Cast, Character, Job, Member};
use super::pace::{Dice, Pace};
use pleach::prelude::*;

/// The time between two portions of messages.
const TICK: Duration = Duration::from_millis(50);

/// How many ticks a wave of customers lasts.
const WAVE: u64 = 160;

/// How often an actor gets how many messages.
struct Load {
    /// Messages per tick, on average.
    steady: u64,
    /// Whether there are more and fewer of them in waves.
    has_waves: bool,
    /// When the first bad job is sent, and the time between two, in milliseconds.
    bad: Option<(u64, (u64, u64))>,
    /// How many bad jobs follow each other.
    patch: u64,
    /// How many good messages are sent at once instead of a bad one.
    burst: u64,
}

impl Load {
    fn of(character: Character) -> Self {
        let steady = |steady| Self { steady, has_waves: false, bad: None, patch: 0, burst: 0 };
        match character {
            Character::Front => Self { has_waves: true, ..steady(35) },
            Character::Ledger => steady(6),
            Character::Stock => Self { bad: Some((1_500, (2_500, 5_000))), patch: 1, ..steady(9) },
            Character::Prices => Self { bad: Some((3_200, (6_000, 9_000))), patch: 1, ..steady(8) },
            Character::Bank => Self { bad: Some((5_500, (11_000, 16_000))), patch: 4, ..steady(4) },
            Character::Mail => Self { bad: Some((2_200, (6_000, 8_000))), burst: 75, ..steady(1) },
        }
    }
}

/// Starts all senders in a scope.
pub fn start(scope: &Scope, cast: &Cast, pace: &Pace, seed: u64) -> Result<(), pleach::Error> {
    for member in cast.members() {
        let name = member.character.name();
        scope.task().named(name).launch(send(member.clone(), pace.clone(), Dice::new(seed, name)))?;
    }
    Ok(())
}

async fn send(member: Member, pace: Pace, mut dice: Dice) {
    let load = Load::of(member.character);
    let (mut number, mut ticks) = (0, 0);
    let mut wait = load.bad.map(|(first, _)| Duration::from_millis(first));
    while !pace.is_finishing() {
        ticks += 1;
        let usual = if load.has_waves { load.steady * wave(ticks) / 100 } else { load.steady };
        for _ in 0..dice.between(usual / 2, usual + usual.div_ceil(2)) {
            number += 1;
            member.tell(Job::Good(number));
        }
        pace.rest(TICK).await;
        wait = wait.map(|wait| wait.saturating_sub(TICK));
        let (true, Some((_, (low, high)))) = (wait == Some(Duration::ZERO), load.bad) else { continue };
        wait = Some(dice.millis(low, high));
        for _ in 0..load.burst {
            number += 1;
            member.tell(Job::Good(number));
        }
        for _ in 0..load.patch {
            number += 1;
            member.tell(Job::Bad(number));
            pace.rest(TICK * 6).await;
        }
    }
}

/// Returns a part of the usual load in percent, which falls and rises between 40 and 160.
fn wave(ticks: u64) -> u64 {
    let phase = (ticks + WAVE / 4) % WAVE;
    40 + 120 * phase.min(WAVE - phase) / (WAVE / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_rise_and_fall_around_the_usual_load() {
        let loads: Vec<u64> = (0..WAVE).map(wave).collect();
        assert_eq!((loads.iter().min(), loads.iter().max()), (Some(&40), Some(&160)));
        assert_eq!(loads.iter().sum::<u64>() / WAVE, 100 - 1);
    }
}
