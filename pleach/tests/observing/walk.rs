//! O1: a walk in pages lists each lasting member exactly once while others start and end.

use crate::common::{Log, TestActor};
use pleach::inspect::SnapshotQuery;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::system::System;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What happens between two pages.
#[derive(Clone, Debug)]
enum Change {
    /// Starts an actor below the scope with this index.
    Spawn(usize),
    /// Starts a scope below the scope with this index.
    Scope(usize),
    /// Stops the member with this index, and everything below it.
    Stop(usize),
    /// Lists the next page, with this limit.
    Page(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => any::<prop::sample::Index>().prop_map(|index| Change::Spawn(index.index(1_000))),
        1 => any::<prop::sample::Index>().prop_map(|index| Change::Scope(index.index(1_000))),
        2 => any::<prop::sample::Index>().prop_map(|index| Change::Stop(index.index(1_000))),
        3 => (1..5usize).prop_map(Change::Page),
    ]
}

/// The members of the model by number: the handle, and the scope if it is one.
type Model = BTreeMap<u64, (AnyRef, Option<std::rc::Rc<Scope>>)>;

fn alive(model: &Model) -> BTreeSet<u64> {
    model.iter().filter(|(_, (any, _))| any.exit().is_none()).map(|(id, _)| *id).collect()
}

fn scopes(model: &Model) -> Vec<std::rc::Rc<Scope>> {
    model.values().filter(|(any, _)| any.exit().is_none()).filter_map(|(_, scope)| scope.clone()).collect()
}

fn add_scope(model: &mut Model, scope: Scope) {
    model.insert(scope.any().id().get(), (scope.any(), Some(std::rc::Rc::new(scope))));
}

fn apply(sim: &Sim, model: &mut Model, change: &Change) {
    let scopes = scopes(model);
    match change {
        Change::Spawn(index) if !scopes.is_empty() => {
            let actor = scopes[index % scopes.len()].spawn_unnamed(TestActor::props(&Log::new())).unwrap();
            model.insert(actor.id().get(), (actor.any(), None));
        }
        Change::Scope(index) if !scopes.is_empty() => {
            let scope = scopes[index % scopes.len()].scope(&format!("s{}", model.len())).unwrap();
            add_scope(model, scope);
        }
        Change::Stop(index) => {
            let alive: Vec<_> = alive(model).into_iter().collect();
            // The first scope stays, so that there is always a place for more.
            if let Some(id) = alive.get(1 + index % alive.len()) {
                model[id].0.stop();
                sim.settle();
            }
        }
        _ => {}
    }
}

fn next_page(system: &System, query: &mut SnapshotQuery, limit: usize, listed: &mut Vec<u64>) -> bool {
    let page = system.snapshot(&query.clone().limit(limit)).unwrap();
    assert!(page.members.len() <= limit);
    listed.extend(page.members.iter().map(|member| member.id));
    match page.next {
        Some(next) => *query = query.clone().after(next.to_string().parse().unwrap()),
        None => return true,
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn o1_lasting_members_are_listed_exactly_once(
        before in prop::collection::vec(change(), 0..30),
        during in prop::collection::vec(change(), 0..60),
    ) {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let mut model = Model::new();
        add_scope(&mut model, system.scope("first").unwrap());
        before.iter().for_each(|change| apply(&sim, &mut model, change));
        let first: ActorPath = "/user/first".parse().unwrap();
        let (mut query, mut listed) = (SnapshotQuery::at(first), Vec::new());
        let mut lasting = alive(&model);
        let mut ended = false;
        for change in &during {
            match change {
                Change::Page(limit) if !ended => {
                    ended = next_page(&system, &mut query, *limit, &mut listed);
                    if ended { break; }
                }
                change => apply(&sim, &mut model, change),
            }
            lasting = lasting.intersection(&alive(&model)).copied().collect();
        }
        while !ended {
            ended = next_page(&system, &mut query, 3, &mut listed);
        }
        let once: BTreeSet<_> = listed.iter().copied().collect();
        prop_assert_eq!(once.len(), listed.len(), "a member was listed twice");
        prop_assert!(lasting.is_subset(&once), "missing: {:?}", lasting.difference(&once));
    }
}

/// A walk over 100,000 siblings, of which most end during the walk.
#[test]
fn o1_many_siblings_are_listed_while_they_work() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("many").unwrap();
    let actors: Vec<_> = (0..100_000).map(|_| scope.spawn_unnamed(TestActor::props(&Log::new())).unwrap()).collect();
    sim.settle();
    let mut query = SnapshotQuery::at("/user/many".parse().unwrap()).limit(5_000);
    let mut listed = Vec::new();
    let mut pages = 0;
    loop {
        let page = system.snapshot(&query).unwrap();
        listed.extend(page.members.iter().map(|member| member.id));
        pages += 1;
        // Every second one of the next thousand ends, and new ones start.
        actors.iter().skip(pages * 4_000).take(1_000).step_by(2).for_each(|actor| actor.stop());
        (0..100).for_each(|_| drop(scope.spawn_unnamed(TestActor::props(&Log::new())).unwrap()));
        sim.settle();
        match page.next {
            Some(next) => query = query.after(next),
            None => break,
        }
    }
    let once: BTreeSet<_> = listed.iter().copied().collect();
    assert_eq!(once.len(), listed.len());
    let lasting = actors.iter().filter(|actor| actor.exit().is_none());
    assert!(lasting.clone().count() > 80_000);
    assert!(lasting.map(|actor| actor.id().get()).all(|id| once.contains(&id)));
}
