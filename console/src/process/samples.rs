//! [`Samples`]: the last minutes of members that somebody looks at, as points for plots.
//!
//! A point is taken when the view is asked for, at most once in [`EVERY`]; a stream asks once a
//! second. So nothing runs when nobody looks, and a pause is a gap between two points.

use crate::failure::Failure;
use crate::process::history::{time, unix_micros};
use crate::process::link::Link;
use crate::process::parse_path;
use crate::view::MemberAt;
use pleach::actor::ActorPath;
use pleach::inspect::ActorInfo;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time between two points.
const EVERY: Duration = Duration::from_secs(1);

/// Two looks that are a little closer still give two points.
const SLACK: Duration = Duration::from_millis(150);

/// How many points of a member are kept: five minutes.
const POINTS_MAX: usize = 300;

/// How many members have points. The one that nobody has looked at for longest is dropped.
const MEMBERS_MAX: usize = 64;

/// How long the points of a member are kept when nobody looks.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// The points of the members that somebody looks at.
#[derive(Default)]
pub(super) struct Samples(Mutex<BTreeMap<ActorPath, Ring>>);

struct Ring {
    /// The number of the member: another one at the same path has counts of its own.
    member: u64,
    last: Look,
    points: VecDeque<Point>,
}

struct Look {
    at: Instant,
    accepted: u64,
    handled: u64,
    failed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    at: String,
    queued: u64,
    accepted_per_s: Option<f64>,
    handled_per_s: Option<f64>,
    failed_per_s: Option<f64>,
}

/// Answers the view `ring`.
pub(super) async fn ring(link: &Arc<Link>, samples: &Samples, at: &MemberAt) -> Result<Value, Failure> {
    let path = parse_path(&at.path)?;
    let member = link.session().await?.ask(|client| client.member(&path)).await?;
    let Some(actor) = &member.actor else {
        let text = format!("{path} is a {}, which has no mailbox", member.kind);
        return Err(Failure::new("not_possible", text).advice("look at the actors below it"));
    };
    let points = samples.add(&path, member.id, actor, Instant::now());
    Ok(json!({ "every_ms": EVERY.as_millis() as u64, "points": points }))
}

impl Samples {
    /// Adds a point if it is time, and returns all points of the member, the oldest first.
    fn add(&self, path: &ActorPath, member: u64, actor: &ActorInfo, now: Instant) -> Vec<Point> {
        let look =
            Look { at: now, accepted: actor.counts.accepted, handled: actor.counts.handled, failed: actor.counts.failed };
        let mut rings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rings.retain(|_, ring| now.saturating_duration_since(ring.last.at) < KEPT_FOR);
        let known = rings.get_mut(path).filter(|ring| ring.member == member);
        if let Some(ring) = known {
            if now.saturating_duration_since(ring.last.at) + SLACK >= EVERY {
                let point = look.point_after(Some(&ring.last), actor.queued);
                ring.last = look;
                ring.points.push_back(point);
                while ring.points.len() > POINTS_MAX {
                    ring.points.pop_front();
                }
            }
            return ring.points.iter().cloned().collect();
        }
        if rings.len() >= MEMBERS_MAX && !rings.contains_key(path) {
            let oldest = rings.iter().min_by_key(|(_, ring)| ring.last.at).map(|(path, _)| path.clone());
            oldest.into_iter().for_each(|path| drop(rings.remove(&path)));
        }
        let first = look.point_after(None, actor.queued);
        rings.insert(path.clone(), Ring { member, last: look, points: VecDeque::from([first.clone()]) });
        vec![first]
    }
}

impl Look {
    /// Returns the point of this look, with the rates since the look before.
    fn point_after(&self, before: Option<&Look>, queued: u64) -> Point {
        let rate = |now: u64, of: fn(&Look) -> u64| {
            let before = before?;
            let seconds = self.at.saturating_duration_since(before.at).as_secs_f64();
            (seconds > 0.0).then(|| now.saturating_sub(of(before)) as f64 / seconds)
        };
        Point {
            at: time(unix_micros()),
            queued,
            accepted_per_s: rate(self.accepted, |look| look.accepted),
            handled_per_s: rate(self.handled, |look| look.handled),
            failed_per_s: rate(self.failed, |look| look.failed),
        }
    }
}
