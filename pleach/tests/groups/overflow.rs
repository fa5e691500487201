//! G9: a group that drops results when its buffer is full.

use crate::common::tasks::numbers;
use crate::common::{PanicOnDrop, quiet};
use pleach::prelude::*;
use pleach::sim::Sim;

#[test]
fn g9_results_beyond_the_buffer_are_dropped_and_counted() {
    let sim = Sim::new(1);
    for (newest, kept) in [(true, [0, 1, 2]), (false, [7, 8, 9])] {
        let builder = || {
            let builder = numbers(&sim).limit(1).buffer(3);
            if newest { builder.drop_newest() } else { builder.drop_oldest() }
        };
        let group = builder().build().unwrap();
        let feed = async {
            for n in 0..10 {
                group.go(async move { n }).await.unwrap();
            }
            group.wait().await.unwrap();
        };
        sim.run(feed);
        assert_eq!((group.unread(), group.dropped()), (3, 7));
        group.close();
        assert_eq!(sim.run(group.drain()).values, kept);

        let group = builder().in_place().unwrap();
        sim.run(async {
            for n in 0..10 {
                group.go(async move { n }).await.unwrap();
            }
            group.wait().await.unwrap();
            assert_eq!((group.unread(), group.dropped()), (3, 7));
            group.close();
            for n in kept {
                assert_eq!(group.next().await, Some(Ok(n)));
            }
            assert_eq!(group.next().await, None);
        });
    }
}

#[test]
fn g9_error_of_a_dropped_result_is_kept() {
    let sim = Sim::new(1);
    let group = numbers(&sim).buffer(1).drop_newest().fail_fast(false).build().unwrap();
    let answer = sim.run(async {
        group.go(async { 1 }).await.unwrap();
        group.wait().await.unwrap();
        group.go(async { Err::<u32, _>("no") }).await.unwrap();
        group.wait().await
    });
    assert!(matches!(answer, Err(TaskError::Failed(_))), "{answer:?}");
    assert_eq!((group.dropped(), group.errors().errors.len()), (1, 1));
    assert_eq!(sim.run(group.next()), Some(Ok(1)));
}

#[test]
fn g9_dropped_reader_returns_its_result_within_the_buffer() {
    let sim = Sim::new(1);
    let group = numbers(&sim).buffer(1).drop_oldest().build().unwrap();
    let mut reader = group.next();
    assert!(crate::common::poll_once(&mut reader).is_pending());
    sim.run(async {
        group.go(async { 1 }).await.unwrap();
        group.wait().await.unwrap();
        group.go(async { 2 }).await.unwrap();
        group.wait().await.unwrap();
    });
    assert_eq!((group.unread(), group.dropped()), (2, 0));
    drop(reader);
    assert_eq!((group.unread(), group.dropped()), (1, 1));
    assert_eq!(sim.run(group.next()), Some(Ok(2)));
}

#[test]
fn g9_dropped_result_whose_drop_panics_harms_no_other() {
    quiet();
    let sim = Sim::new(1);
    let group =
        GroupBuilder::<Option<PanicOnDrop>>::under(&CancelToken::root(sim.runtime())).buffer(1).drop_oldest().build().unwrap();
    sim.run(async {
        group.go(async { Some(PanicOnDrop) }).await.unwrap();
        group.wait().await.unwrap();
        group.go(async { None }).await.unwrap();
        group.wait().await.unwrap();
    });
    assert_eq!(group.dropped(), 1);
    assert!(matches!(sim.run(group.next()), Some(Ok(None))));
}
