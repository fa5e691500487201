//! O1: rates over the last 10 s and 60 s, from counts that actors keep anyway.

use crate::common::{Job, Log, TestActor};
use pleach::inspect::RateSampler;
use pleach::prelude::*;
use pleach::sim::Sim;
use std::time::Duration;

#[test]
fn o1_rates_cover_the_last_10_and_60_seconds() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    let actor = supervisor.spawn("actor", TestActor::props(&Log::new())).unwrap();
    let mut sampler = RateSampler::new(supervisor.any());
    assert_eq!(sampler.rates().last_10s, None);
    sampler.pass();
    assert_eq!(sampler.rates().last_10s, None, "one pass has no rate");
    // 100 s with 3 messages a second, then 100 s with 20.
    for second in 0..200 {
        (0..if second < 100 { 3 } else { 20 }).for_each(|n| actor.tell(Job::Note(n)).unwrap());
        sim.run(sim.sleep(Duration::from_secs(1)));
        sampler.pass();
        let rates = sampler.rates();
        let (short, long) = (rates.last_10s.unwrap().handled, rates.last_60s.unwrap().handled);
        match second {
            0..99 => assert!((2.5..=3.5).contains(&short) && (2.5..=3.5).contains(&long), "{second}: {short} {long}"),
            115..150 => assert!((19.5..=20.5).contains(&short) && (3.5..=19.5).contains(&long), "{second}: {short} {long}"),
            165.. => assert!((19.5..=20.5).contains(&short) && (19.5..=20.5).contains(&long), "{second}: {short} {long}"),
            _ => {}
        }
        assert!(rates.sampled_for <= Duration::from_secs(61));
    }
    let (accepted, handled) = sampler.rate_of(actor.id().get()).unwrap();
    assert_eq!((accepted.round(), handled.round()), (20.0, 20.0));
    assert_eq!(sampler.rate_of(0), None);
}

#[test]
fn o1_rates_include_ended_members_and_can_be_sampled_in_parts() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    let spawn = |name: &str| supervisor.spawn(name, TestActor::props(&Log::new())).unwrap();
    let (stays, ends) = (spawn("stays"), spawn("ends"));
    let mut sampler = RateSampler::new(supervisor.any()).tracked(0);
    let pass_in_parts = |sampler: &mut RateSampler| {
        let mut parts = 1;
        while !sampler.advance(1) {
            parts += 1;
        }
        parts
    };
    assert!(pass_in_parts(&mut sampler) >= 3);
    for actor in [&stays, &ends] {
        (0..10).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    }
    ends.close();
    sim.run(sim.sleep(Duration::from_secs(2)));
    pass_in_parts(&mut sampler);
    let rates = sampler.rates().last_10s.unwrap();
    assert!((9.5..=10.0).contains(&rates.handled), "{rates:?}");
    assert_eq!(sampler.counts(), system.counts());
    assert_eq!(sampler.rate_of(stays.id().get()), None, "no member is tracked");
}
