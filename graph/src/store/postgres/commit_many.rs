//! Commits of several runs in one statement. Each fence is judged separately.

use super::batcher::CallResult;
use super::commit::{Changes, rings};
use super::fault::Failure;
use super::{ring, sql};
use crate::store::row::Row;
use crate::store::time::Timestamp;
use crate::store::{Commit, Committed};
use deadpool_postgres::ClientWrapper;
use std::sync::Arc;
use tokio_postgres::types::ToSql;

/// Returns the bytes of a commit; `None` if it cannot be made together with others.
pub(super) fn bytes(commit: &Commit) -> Option<usize> {
    let is_plain = commit.tags.is_none() && commit.version.is_none() && commit.refuses.is_empty();
    is_plain.then(|| commit.rows.iter().map(Row::size).sum())
}

/// The runs of a batch as columns, for `unnest`.
#[derive(Default)]
struct Runs<'a> {
    ids: Vec<&'a str>,
    instances: Vec<i64>,
    epochs: Vec<i64>,
    heads: Vec<i64>,
    new_heads: Vec<i64>,
    statuses: Vec<Option<&'static str>>,
    seens: Vec<i64>,
    wakes: Vec<Option<&'static str>>,
    wake_ats: Vec<Option<i64>>,
    deadlines_are: Vec<Option<&'static str>>,
    deadlines: Vec<Option<i64>>,
    releases: Vec<bool>,
    failures: Vec<Option<String>>,
}

/// The rows of all logs as columns, and the taken messages. `places` and `takers` count the runs
/// from 1.
#[derive(Default)]
struct Parts<'a> {
    places: Vec<i64>,
    sequences: Vec<i64>,
    sums: Vec<i64>,
    headers: Vec<&'a [u8]>,
    bodies: Vec<&'a [u8]>,
    takers: Vec<i64>,
    takes: Vec<i64>,
}

impl<'a> Runs<'a> {
    fn push(&mut self, commit: &'a Commit) {
        let changes = Changes::of(commit);
        let head = commit.rows.first().map_or(0, |row| row.sequence as i64 - 1);
        self.ids.push(&commit.run);
        self.instances.push(commit.instance as i64);
        self.epochs.push(commit.epoch as i64);
        self.heads.push(head);
        self.new_heads.push(head + commit.rows.len() as i64);
        self.statuses.push(changes.status);
        self.seens.push(changes.seen);
        self.wakes.push(changes.wake);
        self.wake_ats.push(changes.wake_at);
        self.deadlines_are.push(changes.deadline_is);
        self.deadlines.push(changes.deadline);
        self.releases.push(commit.release);
        self.failures.push(changes.failure);
    }
}

impl<'a> Parts<'a> {
    fn push(&mut self, place: i64, commit: &'a Commit) {
        for row in &commit.rows {
            self.places.push(place);
            self.sequences.push(row.sequence as i64);
            self.sums.push(i64::from(row.sum));
            self.headers.push(&row.header);
            self.bodies.push(&row.body);
        }
        for number in &commit.takes {
            self.takers.push(place);
            self.takes.push(i64::try_from(*number).unwrap_or(i64::MAX));
        }
    }
}

/// Makes the commits whose fences match and whose rows are not locked.
pub(super) async fn commit(client: &ClientWrapper, commits: &[Arc<Commit>]) -> Result<Vec<CallResult<Committed>>, Failure> {
    // Every statement that locks several runs does it in the order of their ids.
    let mut order: Vec<usize> = (0..commits.len()).collect();
    order.sort_by(|one, other| commits[*one].run.cmp(&commits[*other].run));
    let (mut runs, mut parts) = (Runs::default(), Parts::default());
    for (place, at) in (1..).zip(&order) {
        runs.push(&commits[*at]);
        parts.push(place, &commits[*at]);
    }
    let parameters: [&(dyn ToSql + Sync); 20] = [
        &runs.ids,
        &runs.instances,
        &runs.epochs,
        &runs.heads,
        &runs.new_heads,
        &runs.statuses,
        &runs.seens,
        &runs.wakes,
        &runs.wake_ats,
        &runs.deadlines_are,
        &runs.deadlines,
        &runs.releases,
        &runs.failures,
        &parts.places,
        &parts.sequences,
        &parts.sums,
        &parts.headers,
        &parts.bodies,
        &parts.takers,
        &parts.takes,
    ];
    let found = match commits.iter().any(|commit| rings(commit)) {
        true => ring::query_and_ring(client, &sql::COMMIT_MANY, &parameters).await?,
        false => client.query(&client.prepare_cached(&sql::COMMIT_MANY).await?, &parameters).await?,
    };
    let mut results: Vec<_> = commits.iter().map(|_| CallResult::Alone).collect();
    for row in &found {
        let place = row.try_get::<_, i64>("place")? as usize;
        let (last_message, now) = (row.try_get::<_, i64>("posted")? as u64, Timestamp::from_millis(row.try_get("now")?));
        results[order[place - 1]] = CallResult::Done(Committed { last_message, now });
    }
    Ok(results)
}
