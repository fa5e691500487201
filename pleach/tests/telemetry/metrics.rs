//! O5: the documented metrics, with bounded labels.

use crate::common::{Gate, INJECTED, Job, Log, TestActor, quiet};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::telemetry::{ACTOR_LABELS_MAX, SystemMetrics};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A recorder that keeps the last value of each series, as `name{label=value,…}`.
#[derive(Clone, Default)]
pub struct Recorded(Arc<Mutex<BTreeMap<String, f64>>>);

impl Recorded {
    pub fn get(&self, series: &str) -> f64 {
        self.0.lock().unwrap().get(series).copied().unwrap_or(-1.0)
    }

    pub fn series(&self, prefix: &str) -> Vec<String> {
        self.0.lock().unwrap().keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }

    fn of(&self, key: &Key) -> Arc<Series> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Series(self.clone(), format!("{}{{{}}}", key.name(), labels.join(","))))
    }
}

struct Series(Recorded, String);

impl Series {
    fn change(&self, change: impl FnOnce(f64) -> f64) {
        let mut values = self.0.0.lock().unwrap();
        let value = values.entry(self.1.clone()).or_insert(0.0);
        *value = change(*value);
    }
}

impl CounterFn for Series {
    fn increment(&self, by: u64) {
        self.change(|value| value + by as f64);
    }

    fn absolute(&self, to: u64) {
        self.change(|_| to as f64);
    }
}

impl GaugeFn for Series {
    fn increment(&self, by: f64) {
        self.change(|value| value + by);
    }

    fn decrement(&self, by: f64) {
        self.change(|value| value - by);
    }

    fn set(&self, to: f64) {
        self.change(|_| to);
    }
}

impl HistogramFn for Series {
    fn record(&self, _: f64) {
        self.change(|count| count + 1.0);
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.of(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.of(key))
    }
}

/// Runs `test` with a recorder of its own.
pub fn recorded(test: impl FnOnce(&Recorded)) {
    let recorded = Recorded::default();
    metrics::with_local_recorder(&recorded, || test(&recorded));
}

#[test]
fn o5_counters_follow_messages_failures_and_decisions() {
    quiet();
    recorded(|recorded| {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let metrics = SystemMetrics::new(&system);
        let actor = TestActor::spawn(&system, "a");
        (0..5).for_each(|n| actor.tell(Job::Note(n)).unwrap());
        actor.tell(Job::Fail("no")).unwrap();
        actor.tell(Job::Panic(INJECTED)).unwrap();
        sim.settle();
        metrics.sample();
        for (series, value) in [
            ("pleach.messages.accepted{system=s}", 7.0),
            ("pleach.messages{system=s,outcome=handled}", 5.0),
            ("pleach.messages{system=s,outcome=failed}", 2.0),
            ("pleach.messages{system=s,outcome=dead_lettered}", 0.0),
            ("pleach.failures{system=s,error.type=error}", 1.0),
            ("pleach.failures{system=s,error.type=panic}", 1.0),
            ("pleach.supervision.decisions{system=s,directive=restart}", 2.0),
        ] {
            assert_eq!(recorded.get(series), value, "{series}");
        }
        (0..2).for_each(|_| actor.tell(Job::Fail("no")).unwrap());
        (0..3).for_each(|n| actor.tell(Job::Note(n)).unwrap());
        sim.settle();
        metrics.sample();
        for (series, value) in [
            ("pleach.supervision.gave_up{system=s}", 1.0),
            ("pleach.failures.unhandled{system=s}", 1.0),
            ("pleach.dead_letters{system=s,reason=failed}", 3.0),
            ("pleach.messages{system=s,outcome=dead_lettered}", 3.0),
        ] {
            assert_eq!(recorded.get(series), value, "{series}");
        }
        drop(metrics);
        TestActor::spawn(&system, "b").tell(Job::Fail("no")).unwrap();
        sim.settle();
        assert_eq!(recorded.get("pleach.failures{system=s,error.type=error}"), 3.0, "dropped metrics count nothing");
    });
}

#[test]
fn o5_gauges_are_by_label_and_fall_to_zero() {
    recorded(|recorded| {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let metrics = SystemMetrics::new(&system);
        let gate = Gate::new();
        let actors: Vec<_> =
            (0..3).map(|n| system.spawn(&format!("a{n}"), TestActor::props(&Log::new()).label("till")).unwrap()).collect();
        let props = Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(()));
        system.spawn("plain", props).unwrap();
        for (n, actor) in actors.iter().enumerate() {
            (0..=n).for_each(|_| actor.tell(Job::Pass(gate.clone(), 0)).unwrap());
        }
        sim.settle();
        metrics.sample();
        for (series, value) in [
            ("pleach.actors{system=s,actor=till}", 3.0),
            ("pleach.mailbox.queued{system=s,actor=till}", 3.0),
            ("pleach.mailbox.queued.max{system=s,actor=till}", 2.0),
            ("pleach.actors{system=s,actor=u32}", 1.0),
        ] {
            assert_eq!(recorded.get(series), value, "{series}");
        }
        actors.iter().for_each(|actor| actor.cancel(()));
        sim.settle();
        metrics.sample();
        assert_eq!(recorded.get("pleach.actors{system=s,actor=till}"), 0.0);
        assert_eq!(recorded.get("pleach.mailbox.queued{system=s,actor=till}"), 0.0);
        assert!(!format!("{:?}", recorded.series("")).contains("/user"), "no path is a label");
    });
}

#[test]
fn o5_number_of_actor_labels_is_bounded() {
    recorded(|recorded| {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let metrics = SystemMetrics::new(&system);
        for n in 0..ACTOR_LABELS_MAX * 2 {
            let label: &'static str = Box::leak(format!("kind-{n}").into_boxed_str());
            system.spawn(&n.to_string(), TestActor::props(&Log::new()).label(label)).unwrap();
        }
        metrics.sample();
        assert_eq!(recorded.series("pleach.actors{").len(), ACTOR_LABELS_MAX);
        let other = recorded.get("pleach.actors{system=s,actor=other}");
        assert_eq!(other, (ACTOR_LABELS_MAX + 1) as f64);
    });
}

#[test]
fn o5_sampler_ends_with_its_system() {
    recorded(|recorded| {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let scope = system.scope("metrics").unwrap();
        scope.launch(SystemMetrics::new(&system).sample_every(Duration::from_secs(10))).unwrap();
        let actor = TestActor::spawn(&system, "a");
        sim.settle();
        assert_eq!(recorded.get("pleach.messages.accepted{system=s}"), 0.0);
        actor.tell(Job::Note(1)).unwrap();
        sim.advance(Duration::from_secs(9));
        assert_eq!(recorded.get("pleach.messages.accepted{system=s}"), 0.0);
        sim.advance(Duration::from_secs(1));
        assert_eq!(recorded.get("pleach.messages.accepted{system=s}"), 1.0);
        actor.tell(Job::Note(1)).unwrap();
        sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
        assert_eq!(recorded.get("pleach.messages.accepted{system=s}"), 2.0, "sampled once more at the end");
    });
}

#[test]
fn o5_handler_times_are_recorded_for_actors_that_ask() {
    use pleach::telemetry::Instruments;
    recorded(|recorded| {
        let sim = Sim::new(1);
        let instruments = Instruments::new().handler_times("s", sim.runtime());
        let system = ActorSystem::builder("s").runtime(sim.runtime()).instrument(instruments).build().unwrap();
        let asks = system.spawn("asks", TestActor::props(&Log::new()).label("asks").instrumented()).unwrap();
        let plain = TestActor::spawn(&system, "plain");
        for actor in [&asks, &plain] {
            (0..3).for_each(|n| actor.tell(Job::Note(n)).unwrap());
            actor.tell(Job::Fail("no")).unwrap();
        }
        sim.settle();
        assert_eq!(recorded.get("pleach.handler.duration{system=s,actor=asks,outcome=handled}"), 3.0);
        assert_eq!(recorded.get("pleach.handler.duration{system=s,actor=asks,outcome=failed}"), 1.0);
        assert_eq!(recorded.series("pleach.handler.duration").len(), 2, "only the actor that asked");
    });
}
