//! Claims: who holds a run, for how long, and which runs are ready for which worker.

use super::fixture::{
    GRAPH, LONG, PRINT, SHORT, bodies, claim, claim_after_lease, claim_ready, create, held, holding, ids, lease, next, only,
    queued, row, rows, take_over, together, until,
};
use crate::store::error::StoreError;
use crate::store::limits::TAKEOVERS_MAX;
use crate::store::row::NewMessage;
use crate::store::run_info::{GraphVersion, RunStatus};
use crate::store::time::Timestamp;
use crate::store::{Claim, Commit, Deadline, Held, NewRun, Prune, Release, Renewed, Store, Wake, Wanted};
use std::collections::BTreeSet;
use std::time::Duration;

/// A lease excludes other owners, and the error names the owner and the remaining time. `force`
/// breaks the lease.
pub async fn c6_held_run_is_claimed_only_by_force(store: &dyn Store) {
    let first = create(store, held("r")).await;
    let rejected = claim(store, "r", "bob", LONG).await.unwrap_err();
    let StoreError::Held { run, owner, until, left } = &rejected else { panic!("{rejected}") };
    assert_eq!((run.as_str(), owner.as_str(), Some(*until)), ("r", "ann", first.run.lease_until));
    assert!(*left <= LONG && *left > LONG / 2, "{left:?}");
    assert!(claim_ready(store, "bob", LONG, 10).await.is_empty());
    assert!(matches!(store.delete("r").await, Err(StoreError::Held { .. })));
    let forced = take_over(store, "r", "bob", LONG).await;
    assert_eq!((forced.run.owner.as_deref(), forced.run.epoch), (Some("bob"), 2));
    assert!(forced.now >= first.now && forced.run.lease_until == Some(forced.now.after(LONG)), "{forced:?}");
}

/// An owner that released a run must claim it again.
pub async fn c6_released_run_is_fenced(store: &dyn Store) {
    let claimed = create(store, held("r")).await;
    let one = holding("r", 1);
    assert_eq!(store.release(vec![one.clone()], Release::AsIs).await.unwrap(), []);
    assert_eq!(
        store.release(vec![one.clone()], Release::AsIs).await.unwrap(),
        std::slice::from_ref(&one),
        "it is released once"
    );
    assert!(matches!(store.commit(next(&claimed, b"")).await, Err(StoreError::Fenced { .. })));
    assert_eq!(store.renew(vec![one.clone()], LONG).await.unwrap().lost, [one]);
    let claimed = claim(store, "r", "bob", LONG).await.unwrap();
    assert_eq!((claimed.run.epoch, claimed.run.takeovers), (2, 0), "this is no takeover");
    store.commit(Commit { release: true, ..next(&claimed, b"") }).await.unwrap();
    let info = store.head("r").await.unwrap();
    assert_eq!((info.owner, info.lease_until), (None, None));
    create(store, queued("queued")).await;
    let unclaimed = Commit::new(holding("queued", 1), vec![row("queued", 2, 1, b"")]);
    assert!(matches!(store.commit(unclaimed).await, Err(StoreError::Fenced { .. })), "the run was never claimed");
}

/// A run that is deleted and created again with the same id is another instance, and the old driver
/// is fenced.
pub async fn c6_recreated_run_is_another_instance(store: &dyn Store) {
    let first = create(store, NewRun { lease: Some(lease("ann", SHORT)), ..queued("r") }).await;
    until(async || match store.delete("r").await {
        Err(StoreError::Held { .. }) => None,
        deleted => {
            deleted.unwrap();
            Some(())
        }
    })
    .await;
    // The same owner, epoch and head.
    let second = create(store, NewRun { instance: first.run.instance + 1, ..held("r") }).await;
    assert_eq!((second.run.epoch, second.run.head, &second.run.owner), (1, 1, &first.run.owner));
    let stale = Held::of(&first.run);
    assert!(matches!(store.commit(next(&first, b"stale")).await, Err(StoreError::Fenced { .. })));
    assert_eq!(store.renew(vec![stale.clone()], LONG).await.unwrap().lost, std::slice::from_ref(&stale));
    assert_eq!(store.release(vec![stale.clone()], Release::AsIs).await.unwrap(), std::slice::from_ref(&stale));
    let pruned = store.prune(Prune::Rows { held: stale, before: 1, keep: vec![] }).await;
    assert!(matches!(pruned, Err(StoreError::Fenced { .. })), "{pruned:?}");
    store.commit(next(&second, b"second")).await.unwrap();
    assert_eq!(store.head("r").await.unwrap().instance, first.run.instance + 1);
}

/// A run that cannot be executed is delayed unless it gets a message, and becomes stuck with its
/// reason in the end.
pub async fn c13_troubled_run_rests_and_becomes_stuck(store: &dyn Store) {
    let first = create(store, held("r")).await;
    let troubled = |delay| Release::Failed { reason: "a state that is not a number".into(), delay };
    assert_eq!(store.release(vec![Held::of(&first.run)], troubled(LONG)).await.unwrap(), []);
    let info = store.head("r").await.unwrap();
    assert_eq!((info.owner, info.takeovers, info.trouble.as_deref()), (None, 1, Some("a state that is not a number")));
    assert!(claim_ready(store, "bob", LONG, 1).await.is_empty(), "the run is delayed");
    store.send_message("r", NewMessage::seal("r", "signal/go", None, vec![])).await.unwrap();
    let woken = only(claim_ready(store, "bob", LONG, 1).await);
    assert_eq!((woken.run.takeovers, woken.run.epoch), (1, 2), "this is no takeover");
    // A commit resets the count.
    store.commit(next(&woken, b"")).await.unwrap();
    let info = store.head("r").await.unwrap();
    assert_eq!((info.takeovers, info.trouble), (0, None));
    for time in 1..=TAKEOVERS_MAX {
        let run = store.head("r").await.unwrap();
        assert_eq!((run.status, run.takeovers), (RunStatus::Running, time - 1));
        store.release(vec![Held::of(&run)], troubled(Duration::ZERO)).await.unwrap();
        if time < TAKEOVERS_MAX {
            until(async || claim_ready(store, "bob", LONG, 1).await.pop()).await;
        }
    }
    let rejected = claim(store, "r", "eve", LONG).await.unwrap_err();
    let StoreError::Stuck { takeovers: TAKEOVERS_MAX, reason: Some(reason), .. } = rejected else { panic!("{rejected}") };
    assert_eq!(reason, "a state that is not a number");
    assert!(claim_ready(store, "bob", LONG, 1).await.is_empty());
    let forced = take_over(store, "r", "eve", LONG).await;
    assert_eq!((forced.run.status, forced.run.takeovers), (RunStatus::Running, 0));
    // For an ended run, the release changes only the reason.
    store.commit(Commit { status: Some(RunStatus::Finished), ..next(&forced, b"") }).await.unwrap();
    store.release(vec![Held::of(&forced.run)], troubled(LONG)).await.unwrap();
    assert_eq!(store.head("r").await.unwrap().status, RunStatus::Finished);
}

/// A run that is left to other drivers is delayed unless it gets a message. It never becomes stuck
/// by that.
pub async fn c13_run_left_to_others_rests_uncounted(store: &dyn Store) {
    let first = create(store, held("r")).await;
    assert_eq!(store.release(vec![Held::of(&first.run)], Release::ForOthers { delay: LONG }).await.unwrap(), []);
    let info = store.head("r").await.unwrap();
    assert_eq!((info.owner, info.takeovers, info.trouble, info.changed), (None, 0, None, first.run.changed));
    assert!(claim_ready(store, "bob", LONG, 1).await.is_empty(), "the run is delayed");
    store.send_message("r", NewMessage::seal("r", "signal/go", None, vec![])).await.unwrap();
    let mut claimed = only(claim_ready(store, "bob", LONG, 1).await);
    for _ in 0..=TAKEOVERS_MAX {
        store.release(vec![Held::of(&claimed.run)], Release::ForOthers { delay: SHORT }).await.unwrap();
        claimed = until(async || claim_ready(store, "bob", LONG, 1).await.pop()).await;
        assert_eq!((claimed.run.status, claimed.run.takeovers), (RunStatus::Running, 0));
    }
    store.commit(Commit { status: Some(RunStatus::Finished), ..next(&claimed, b"") }).await.unwrap();
    store.release(vec![Held::of(&claimed.run)], Release::ForOthers { delay: SHORT }).await.unwrap();
    assert_eq!(store.head("r").await.unwrap().wake_at, None);
}

/// The deadline of a run uses the store's clock, and commits change it.
pub async fn c12_deadline_is_stored_with_the_run(store: &dyn Store) {
    let first = create(store, NewRun { deadline: Some(LONG), ..held("r") }).await;
    assert_eq!(first.run.deadline, Some(first.run.created.after(LONG)));
    store.commit(next(&first, b"")).await.unwrap();
    assert_eq!(store.head("r").await.unwrap().deadline, first.run.deadline);
    let mut claimed = claim(store, "r", "ann", LONG).await.unwrap();
    let sooner = first.run.created.after(SHORT);
    for deadline in [Deadline::At(sooner), Deadline::Never] {
        store.commit(Commit { deadline: Some(deadline), ..next(&claimed, b"") }).await.unwrap();
        let stored = store.head("r").await.unwrap().deadline;
        assert_eq!(stored, if deadline == Deadline::Never { None } else { Some(sooner) });
        claimed.run.head += 1;
    }
    assert_eq!(create(store, held("none")).await.run.deadline, None);
}

/// One call renews several leases, and returns the runs that the caller does not hold.
pub async fn c6_renewal_returns_lost_runs(store: &dyn Store) {
    for run in ["a", "b", "c"] {
        create(store, NewRun { lease: Some(lease("ann", Duration::from_secs(60))), ..queued(run) }).await;
    }
    let of = |run: &str| holding(run, 1);
    take_over(store, "b", "bob", LONG).await;
    let Renewed { lost, busy, .. } = store.renew(vec![of("a"), of("b"), of("c"), of("gone")], LONG).await.unwrap();
    assert_eq!(busy, []);
    assert_eq!(lost.into_iter().collect::<std::collections::HashSet<_>>(), [of("b"), of("gone")].into());
    for (run, owner) in [("a", "ann"), ("b", "bob"), ("c", "ann")] {
        let info = store.head(run).await.unwrap();
        assert!(info.owner.as_deref() == Some(owner) && info.lease_until > Some(info.created.after(LONG / 2)), "{info:?}");
    }
    let nothing = store.renew(vec![], LONG).await.unwrap();
    assert_eq!((nothing.lost, nothing.busy), (vec![], vec![]));
    assert!(matches!(store.renew(vec![of("a")], Duration::ZERO).await, Err(StoreError::Invalid { .. })));
}

/// A slow driver loses nothing until another driver claims its run.
pub async fn c6_expired_lease_can_be_renewed_if_unclaimed(store: &dyn Store) {
    let claimed = create(store, NewRun { lease: Some(lease("ann", SHORT)), ..queued("r") }).await;
    create(store, queued("clock")).await;
    until(async || {
        let now = claim(store, "clock", "clock", LONG).await.unwrap().now;
        (Some(now) > claimed.run.lease_until).then_some(())
    })
    .await;
    store.commit(next(&claimed, b"late")).await.unwrap();
    assert_eq!(store.renew(vec![holding("r", 1)], LONG).await.unwrap().lost, []);
    assert!(matches!(claim(store, "r", "bob", LONG).await, Err(StoreError::Held { .. })));
}

/// Each answer contains the store's time: commits, repeated commits, renewals, and renewals of
/// nothing.
pub async fn c6_commits_and_renewals_return_the_time(store: &dyn Store) {
    let claimed = create(store, held("r")).await;
    let commit = next(&claimed, b"one");
    let committed = store.commit(commit.clone()).await.unwrap();
    assert_eq!(committed.now, store.head("r").await.unwrap().changed);
    let mut last = committed.now;
    // Some stores have a resolution of a few milliseconds.
    let is_later = |earlier: Timestamp, now: Timestamp| now.after(Duration::from_millis(10)) >= earlier;
    assert!(is_later(claimed.now, last));
    for lease in [LONG, LONG * 2] {
        let renewed = store.renew(vec![holding("r", 1)], lease).await.unwrap();
        assert_eq!(store.head("r").await.unwrap().lease_until, Some(renewed.now.after(lease)));
        let (nothing, again) = (store.renew(vec![], lease).await.unwrap(), store.commit(commit.clone()).await.unwrap());
        for now in [renewed.now, nothing.now, again.now] {
            assert!(is_later(last, now), "{last:?} {now:?}");
            last = now;
        }
    }
}

/// The answer to a claim can be lost, so the owner can claim again.
pub async fn c6_owner_can_claim_its_run_again(store: &dyn Store) {
    create(store, held("r")).await;
    let again = claim(store, "r", "ann", LONG).await.unwrap();
    assert_eq!((again.run.epoch, again.run.takeovers), (2, 0));
}

/// A run sleeps until its wake time, and is then ready.
pub async fn c12_timer_makes_a_run_due(store: &dyn Store) {
    let claimed = create(store, held("soon")).await;
    let soon = claimed.now.after(Duration::from_millis(30));
    let sleeping =
        |at| Commit { status: Some(RunStatus::Waiting), wake: Some(Wake::At(at)), release: true, ..next(&claimed, b"") };
    store.commit(sleeping(soon)).await.unwrap();
    create(store, NewRun { wake: Wake::At(claimed.now.after(LONG)), ..queued("late") }).await;
    create(store, NewRun { wake: Wake::OnMessage, ..queued("never") }).await;
    assert_eq!(store.head("late").await.unwrap().status, RunStatus::Waiting);
    let claims = until(async || {
        let claims = claim_ready(store, "bob", LONG, 10).await;
        (!claims.is_empty()).then_some(claims)
    })
    .await;
    assert_eq!(ids(&claims), ["soon"]);
    assert!(claims[0].now >= soon, "the run is not claimed before it is due");
    assert_eq!(claims[0].run.status, RunStatus::Waiting);
}

/// A wake time can be any number: before all clocks is due, after all clocks is never due.
pub async fn c12_extreme_wake_times_are_due_or_never(store: &dyn Store) {
    let at = |id: &str, millis| NewRun { wake: Wake::At(Timestamp::from_millis(millis)), ..queued(id) };
    create(store, at("first", i64::MIN)).await;
    create(store, at("last", i64::MAX)).await;
    let claimed = create(store, held("committed")).await;
    let wake = Some(Wake::At(Timestamp::from_millis(i64::MIN + 1)));
    store.commit(Commit { wake, release: true, ..next(&claimed, b"") }).await.unwrap();
    assert_eq!(ids(&claim_ready(store, "bob", LONG, 10).await), ["first", "committed"]);
}

/// A run that kills its drivers becomes stuck, is listed, and continues after a forced claim.
pub async fn c13_run_taken_over_too_often_is_stuck(store: &dyn Store) {
    let dies = |owner: String| lease(&owner, SHORT);
    store.create(NewRun { lease: Some(dies("driver 0".into())), ..queued("r") }, rows("r", 1)).await.unwrap();
    for takeover in 1..=TAKEOVERS_MAX {
        let claimed = claim_after_lease(store, "r", &format!("driver {takeover}"), SHORT).await.unwrap();
        assert_eq!(claimed.run.takeovers, takeover);
    }
    until(async || {
        let claims = claim_ready(store, "driver 6", LONG, 1).await;
        assert!(claims.is_empty(), "a stuck run is not claimed");
        (store.head("r").await.unwrap().status == RunStatus::Stuck).then_some(())
    })
    .await;
    assert!(matches!(claim(store, "r", "eve", LONG).await, Err(StoreError::Stuck { takeovers: TAKEOVERS_MAX, .. })));
    let listed = store.list(vec![crate::store::run_info::Filter::Status(RunStatus::Stuck)], None, 10).await.unwrap();
    assert_eq!(listed.runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["r"]);
    let forced = take_over(store, "r", "eve", SHORT).await;
    assert_eq!((forced.run.status, forced.run.takeovers), (RunStatus::Running, 0));
    // A commit resets the count.
    let claimed = claim_after_lease(store, "r", "eva", SHORT).await.unwrap();
    assert_eq!(claimed.run.takeovers, 1);
    store.commit(next(&claimed, b"")).await.unwrap();
    assert_eq!(store.head("r").await.unwrap().takeovers, 0);
}

/// The second creation is rejected, and the first run is unchanged.
pub async fn c14_run_id_is_created_once(store: &dyn Store) {
    create(store, held("r")).await;
    let before = store.head("r").await.unwrap();
    for other in [queued("r"), NewRun { lease: Some(lease("bob", LONG)), ..queued("r") }] {
        let rejected = store.create(other, rows("r", 2)).await;
        assert!(matches!(&rejected, Err(StoreError::Exists { run }) if run == "r"), "{rejected:?}");
    }
    assert_eq!((store.head("r").await.unwrap(), bodies(store, "r").await.len()), (before, 1));
    let many = (0..8).map(|_| store.create(queued("many"), rows("many", 1))).collect();
    assert_eq!(together(many).await.iter().filter(|answer| answer.is_ok()).count(), 1);
}

/// The answer to a creation can be lost, so the creation can be repeated.
pub async fn c14_repeated_creation_is_confirmed_again(store: &dyn Store) {
    let first = store.create(held("r"), rows("r", 2)).await.unwrap();
    let again = store.create(held("r"), rows("r", 2)).await.unwrap();
    assert_eq!((again.run, bodies(store, "r").await.len()), (first.run, 2));
    let other = vec![row("r", 1, 1, b"other")];
    assert!(matches!(store.create(held("r"), other).await, Err(StoreError::Exists { .. })), "another start is no repetition");
}

/// Workers that claim concurrently get each run once, and together all of them.
pub async fn c15_ready_runs_are_shared(store: &dyn Store) {
    let names: BTreeSet<String> = (0..30).map(|number| format!("run {number}")).collect();
    for name in &names {
        create(store, queued(name)).await;
    }
    let mut claimed = Vec::new();
    while claimed.len() < names.len() {
        let workers: Vec<String> = (0..6).map(|worker| format!("worker {worker}")).collect();
        let claims: Vec<Vec<Claim>> =
            together(workers.iter().map(|worker| Box::pin(claim_ready(store, worker, LONG, 3))).collect()).await;
        let before = claimed.len();
        claimed.extend(claims.into_iter().inspect(|claims| assert!(claims.len() <= 3)).flatten());
        assert!(claimed.len() > before, "no run was claimed although runs were ready");
    }
    assert_eq!(claimed.iter().map(|claim| claim.run.id.clone()).collect::<BTreeSet<_>>(), names);
    assert_eq!(claimed.len(), names.len(), "no run was claimed twice");
    assert!(claimed.iter().all(|claim| claim.run.epoch == 2 && claim.run.owner.is_some()));
    assert!(claim_ready(store, "late", LONG, 3).await.is_empty());
}

/// Name, fingerprint and schema must match together.
pub async fn c15_only_known_graphs_are_claimed(store: &dyn Store) {
    let version = |fingerprint: &str, schema| GraphVersion { fingerprint: fingerprint.into(), schema };
    let of = |id: &str, graph: &str, fingerprint: &str| NewRun {
        graph: graph.into(),
        version: version(fingerprint, 1),
        ..queued(id)
    };
    for run in [of("known", GRAPH, PRINT), of("older", GRAPH, "old"), of("other", "other", PRINT), of("foreign", "other", "x")]
    {
        create(store, run).await;
    }
    for schema in [0, 2] {
        create(store, NewRun { version: version(PRINT, schema), ..queued(&format!("schema {schema}")) }).await;
    }
    let claim = async |graphs: Vec<(String, GraphVersion)>| {
        store.claim(Wanted::Ready { graphs, count: 10 }, lease("bob", LONG)).await.unwrap()
    };
    let claims = async |graphs: &[(&str, &str)]| {
        claim(graphs.iter().map(|(name, print)| (name.to_string(), version(print, 1))).collect()).await
    };
    assert!(claims(&[]).await.is_empty());
    assert_eq!(ids(&claims(&[(GRAPH, PRINT), ("other", "y")]).await), ["known"]);
    let others = claims(&[(GRAPH, "old"), (GRAPH, "old"), ("other", PRINT)]).await;
    assert_eq!(ids(&others).into_iter().collect::<BTreeSet<_>>(), ["older", "other"].into());
    assert_eq!(others.len(), 2);
    let earlier = claim(vec![(GRAPH.into(), version(PRINT, 1)), (GRAPH.into(), version(PRINT, 0))]).await;
    assert_eq!(ids(&earlier), ["schema 0"], "a run of a later schema is left to workers that know it");
}

/// A worker that dies holds its runs until its leases expire, and no longer.
pub async fn c15_runs_of_a_dead_owner_are_taken_over(store: &dyn Store) {
    create(store, queued("r")).await;
    let dead = only(claim_ready(store, "dead", SHORT, 1).await);
    let alive = until(async || claim_ready(store, "alive", LONG, 1).await.pop()).await;
    assert_eq!((alive.run.epoch, alive.run.takeovers), (dead.run.epoch + 1, 1));
    assert!(Some(alive.now) >= dead.run.lease_until);
    assert!(matches!(store.commit(next(&dead, b"dead")).await, Err(StoreError::Fenced { .. })));
    store.commit(next(&alive, b"alive")).await.unwrap();
}

/// No run waits forever behind runs that became due later.
pub async fn c15_longest_due_runs_come_first(store: &dyn Store) {
    for (id, millis) in [("third", 3_000), ("first", 1_000), ("second", 2_000)] {
        create(store, NewRun { wake: Wake::At(Timestamp::from_millis(millis)), ..queued(id) }).await;
    }
    let mut order = Vec::new();
    for _ in 0..3 {
        order.push(only(claim_ready(store, "bob", LONG, 1).await).run.id);
    }
    assert_eq!(order, ["first", "second", "third"]);
}

/// Due runs that no owner claims are returned by version, the longest due first. Held, waiting and
/// ended runs are not.
pub async fn o8_overdue_runs_are_found_by_version(store: &dyn Store) {
    for run in ["a", "b", "c"] {
        create(store, queued(run)).await;
    }
    let old = GraphVersion { fingerprint: "old".into(), schema: 3 };
    create(store, NewRun { version: old.clone(), ..queued("old") }).await;
    create(store, NewRun { graph: "other".into(), ..queued("other") }).await;
    create(store, held("held")).await;
    create(store, NewRun { wake: Wake::OnMessage, ..queued("waiting") }).await;
    let overdue = store.overdue(Duration::ZERO, 2).await.expect("overdue runs");
    let found: Vec<(&str, &str, Vec<&str>, bool)> = overdue
        .iter()
        .map(|of| {
            let ids = of.runs.iter().map(|run| run.id.as_str()).collect();
            (of.graph.as_str(), of.version.fingerprint.as_str(), ids, of.has_more)
        })
        .collect();
    let expected =
        [(GRAPH, PRINT, vec!["a", "b"], true), (GRAPH, "old", vec!["old"], false), ("other", PRINT, vec!["other"], false)];
    assert_eq!(found, expected);
    assert!(overdue.iter().all(|of| of.damaged.is_empty()));
    assert!(store.overdue(LONG, 2).await.expect("overdue runs").is_empty(), "none is due for so long");
    assert_eq!(claim_ready(store, "bob", LONG, 10).await.len(), 3);
    let overdue = store.overdue(Duration::ZERO, 9).await.expect("overdue runs");
    let left: Vec<&str> = overdue.iter().flat_map(|of| &of.runs).map(|run| run.id.as_str()).collect();
    assert_eq!(left, ["old", "other"], "claimed runs are not overdue");
}

/// A run whose timer has passed is overdue from that time on. The run that is due longest comes
/// first, whatever the order of creation.
pub async fn o8_overdue_runs_are_ordered_by_their_time(store: &dyn Store) {
    let claimed = create(store, held("timer")).await;
    let soon = claimed.now.after(Duration::from_millis(30));
    let sleeping =
        Commit { status: Some(RunStatus::Waiting), wake: Some(Wake::At(soon)), release: true, ..next(&claimed, b"") };
    store.commit(sleeping).await.unwrap();
    create(store, queued("at once")).await;
    let early = Timestamp::from_millis(claimed.now.as_millis() - 60_000);
    create(store, NewRun { wake: Wake::At(early), ..queued("early") }).await;
    let overdue = until(async || {
        let overdue = store.overdue(Duration::ZERO, 9).await.expect("overdue runs");
        overdue.first().is_some_and(|of| of.runs.len() == 3).then_some(overdue)
    })
    .await;
    let runs = &overdue[0].runs;
    // A slow machine may create the second run after the timer has passed.
    assert!(runs[0].id == "early" && runs.is_sorted_by_key(|run| run.since), "{runs:?}");
    assert!(runs.iter().any(|run| run.id == "timer" && run.since == soon), "{runs:?}");
    let minute = store.overdue(Duration::from_secs(30), 9).await.expect("overdue runs");
    assert_eq!(minute.iter().flat_map(|of| &of.runs).map(|run| run.id.as_str()).collect::<Vec<_>>(), ["early"]);
}
