//! [`Groups`]: failures or dead letters, grouped by member, message type and reason. Pure.

use pleach::actor::ActorPath;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// How many groups are kept. The one that was quiet for longest is dropped.
const GROUPS_MAX: usize = 500;

/// The longest reason and message of a group, in characters.
const TEXT_MAX: usize = 512;

/// The length of the window of `per_minute`, and of its parts, in microseconds.
const MINUTE_US: u64 = 60_000_000;
const PART_US: u64 = 5_000_000;

/// What makes two failures the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    path: ActorPath,
    message: Option<String>,
    /// The reason with every number as `0`: `shelf 7 is empty` and `shelf 8 is empty` are the same.
    shape: String,
}

#[derive(Debug)]
struct Counted {
    /// The reason of the last one.
    reason: String,
    count: u64,
    first_us: u64,
    last_us: u64,
    seq: u64,
    /// Counts of the last minute, by the number of the part.
    parts: VecDeque<(u64, u64)>,
}

/// One group, as the page shows it.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct GroupJson {
    path: ActorPath,
    message: Option<String>,
    reason: String,
    pub(crate) count: u64,
    first: String,
    last: String,
    per_minute: u64,
    seq: u64,
}

/// The groups of one kind.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<Key, Counted>,
    /// How many failures or dead letters were in groups that were dropped.
    pub(crate) dropped: u64,
}

impl Groups {
    /// Counts one more at `unix_us`, with its number.
    pub(crate) fn add(&mut self, path: ActorPath, message: Option<&str>, reason: &str, seq: u64, unix_us: u64) {
        let key = Key { path, message: message.map(shortened), shape: shape_of(&shortened(reason)) };
        if !self.groups.contains_key(&key) && self.groups.len() >= GROUPS_MAX {
            self.drop_quietest();
        }
        let counted = self.groups.entry(key).or_insert_with(|| Counted {
            reason: String::new(),
            count: 0,
            first_us: unix_us,
            last_us: unix_us,
            seq,
            parts: VecDeque::new(),
        });
        counted.count += 1;
        counted.first_us = counted.first_us.min(unix_us);
        if unix_us >= counted.last_us {
            (counted.last_us, counted.seq) = (unix_us, seq);
            counted.reason = shortened(reason);
        }
        let part = unix_us / PART_US;
        match counted.parts.back_mut().filter(|last| last.0 >= part) {
            Some(last) => last.1 += 1,
            None => counted.parts.push_back((part, 1)),
        }
        while counted.parts.len() as u64 > MINUTE_US / PART_US + 1 {
            counted.parts.pop_front();
        }
    }

    /// Returns the groups whose path, message or reason contains `text`, in upper or lower case:
    /// those that happened last first.
    pub(crate) fn list(&self, text: &str, now_us: u64, at: impl Fn(u64) -> String) -> Vec<GroupJson> {
        let text = text.to_lowercase();
        let contains = |part: &str| part.to_lowercase().contains(&text);
        let is_wanted = |key: &Key, reason: &str| {
            text.is_empty()
                || contains(&key.path.to_string())
                || contains(reason)
                || key.message.as_deref().is_some_and(contains)
        };
        let mut wanted: Vec<_> = self.groups.iter().filter(|(key, counted)| is_wanted(key, &counted.reason)).collect();
        wanted.sort_by_key(|(_, counted)| std::cmp::Reverse((counted.last_us, counted.seq)));
        let json = |(key, counted): (&Key, &Counted)| GroupJson {
            path: key.path.clone(),
            message: key.message.clone(),
            reason: counted.reason.clone(),
            count: counted.count,
            first: at(counted.first_us),
            last: at(counted.last_us),
            per_minute: counted.per_minute(now_us),
            seq: counted.seq,
        };
        wanted.into_iter().map(json).collect()
    }

    fn drop_quietest(&mut self) {
        let quietest = self.groups.iter().min_by_key(|(_, counted)| counted.last_us).map(|(key, _)| key.clone());
        let dropped = quietest.and_then(|key| self.groups.remove(&key));
        self.dropped += dropped.map_or(0, |dropped| dropped.count);
    }
}

impl Counted {
    fn per_minute(&self, now_us: u64) -> u64 {
        let first = now_us.saturating_sub(MINUTE_US) / PART_US;
        self.parts.iter().filter(|(part, _)| *part > first).map(|(_, count)| count).sum()
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// Replaces each number by `0`, so that texts that differ only in numbers are equal.
fn shape_of(text: &str) -> String {
    let mut shape = String::with_capacity(text.len());
    let mut is_number = false;
    for character in text.chars() {
        let is_digit = character.is_ascii_digit();
        if !is_digit {
            shape.push(character);
        } else if !is_number {
            shape.push('0');
        }
        is_number = is_digit;
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(groups: &Groups, text: &str, now_us: u64) -> Vec<GroupJson> {
        groups.list(text, now_us, |at| at.to_string())
    }

    #[test]
    fn k3_groups_count_by_member_message_and_reason() {
        let (mut groups, till): (_, ActorPath) = (Groups::default(), "/user/till".parse().unwrap());
        for second in 0..90 {
            groups.add(till.clone(), Some("Sale"), "no ink", second + 1, second * 1_000_000);
        }
        groups.add(till.clone(), None, "no paper", 91, 90_000_000);
        let all = list(&groups, "", 90_000_000);
        assert_eq!((all.len(), all[0].reason.as_str(), all[1].count, all[1].seq), (2, "no paper", 90, 90));
        assert_eq!((all[1].first.as_str(), all[1].last.as_str()), ("0", "89000000"));
        assert!((50..=60).contains(&all[1].per_minute), "{}", all[1].per_minute);
        assert_eq!(list(&groups, "SALE", 90_000_000).len(), 1, "the message");
        assert_eq!(list(&groups, "", 200_000_000)[1].per_minute, 0, "a minute later");
    }

    #[test]
    fn k3_reasons_that_differ_in_numbers_are_one_group_with_the_newest() {
        let (mut groups, till): (_, ActorPath) = (Groups::default(), "/user/till".parse().unwrap());
        for number in [7, 12, 345] {
            groups.add(till.clone(), None, &format!("shelf {number} is empty"), number, number);
        }
        groups.add(till, None, "shelf is empty", 1, 1);
        let all = list(&groups, "", 1_000);
        assert_eq!((all.len(), all[0].count, all[0].reason.as_str()), (2, 3, "shelf 345 is empty"));
        assert_eq!(list(&groups, "345", 1_000).len(), 1);
    }

    #[test]
    fn k6_groups_are_bounded_and_count_what_they_drop() {
        let (mut groups, till): (_, ActorPath) = (Groups::default(), "/user/till".parse().unwrap());
        for number in 0..2_000_u64 {
            let member = format!("/user/order-{number}").parse().unwrap();
            groups.add(member, None, "no ink", number, number);
        }
        groups.add(till, None, &"ü".repeat(10_000), 2_000, 2_000);
        let all = list(&groups, "", 2_000);
        assert_eq!((all.len(), groups.dropped), (GROUPS_MAX, 2_001 - GROUPS_MAX as u64));
        assert_eq!(all[0].reason.chars().count(), TEXT_MAX + 1);
    }
}
