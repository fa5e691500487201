//! C2 to C15 combined: workers of two versions die and close while they share runs that charge,
//! wait, fan out, fail or cannot be driven. Clients signal, answer and pause runs, delete them and
//! create them again. A plain model tells what each run must have seen.
use crate::common::bank::Bank;
use crate::common::failing_connection::FailingConnection;
use futures::future::{Either, select};
use pleach::durable::{Migrations, RunRemote};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, RunInfo, RunStatus, Store};
use pleach::worker::Worker;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

const LEASE: Duration = Duration::from_millis(400);

/// Time limit of a simulation, in virtual time. A run that cannot be driven is finally delayed for
/// minutes.
const PATIENCE: Duration = Duration::from_secs(1_200);

/// How a run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum PlannedEnd {
    Finishes,
    /// It fails at its last node and is undone.
    Fails,
    /// One of its states cannot be stored, so no worker can drive it.
    Unstorable,
}

/// A run as the model knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Spec {
    id: String,
    end: PlannedEnd,
    signals: u32,
    items: u32,
}

impl Spec {
    fn draw(sim: &Sim, number: usize) -> Self {
        let random = |below| sim.runtime().random() % below;
        let end = match random(5) {
            0 => PlannedEnd::Unstorable,
            1 => PlannedEnd::Fails,
            _ => PlannedEnd::Finishes,
        };
        Self { id: format!("run {number}"), end, signals: random(4) as u32, items: random(4) as u32 }
    }

    /// Everything that the run is charged for.
    fn charges(&self) -> BTreeSet<String> {
        (0..self.items).map(|item| format!("item {item}")).chain(["fee".to_string()]).collect()
    }
}

/// Schema 1 counts dollars and schema 2 cents, in the same field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State<const UNIT: u64> {
    spec: Spec,
    paid: u64,
    seen: Vec<u32>,
    item: Option<u32>,
    rate: f64,
}

/// What the nodes use outside of their run.
#[derive(Clone)]
struct Outside {
    bank: Bank,
    clock: Arc<dyn Runtime>,
}

impl Outside {
    async fn take_time(&self) {
        self.clock.sleep_until(self.clock.now() + Duration::from_millis(self.clock.random() % 40)).await;
    }
}

fn outside(cx: &NodeContext) -> Outside {
    cx.extension::<Outside>().unwrap().clone()
}

/// Charges for an item and records its undo.
async fn charge(cx: &NodeContext, what: String) -> Result<(), String> {
    let (outside, run) = (outside(cx), cx.run_id().to_string());
    cx.record_undo(what.clone());
    outside.take_time().await;
    let work = move |key: String| async move {
        outside.take_time().await;
        outside.bank.charge(&run, &what, &key);
        outside.take_time().await;
        Ok::<_, String>(())
    };
    cx.effect("charge", work).await
}

async fn refund(cx: NodeContext, what: String) -> Result<(), String> {
    let outside = outside(&cx);
    outside.take_time().await;
    outside.bank.refund(cx.run_id(), &what, &cx.idempotency_key());
    outside.take_time().await;
    Ok(())
}

async fn pay<const UNIT: u64>(cx: NodeContext, mut state: State<UNIT>) -> Result<State<UNIT>, String> {
    charge(&cx, "fee".into()).await?;
    state.paid += UNIT;
    Ok(state)
}

async fn pay_item<const UNIT: u64>(cx: NodeContext, mut state: State<UNIT>) -> Result<State<UNIT>, String> {
    charge(&cx, format!("item {}", state.item.unwrap_or_default())).await?;
    state.paid += UNIT;
    Ok(state)
}

/// Collects signals; each wait races a timer.
async fn collect<const UNIT: u64>(cx: NodeContext, mut state: State<UNIT>) -> Result<State<UNIT>, String> {
    let mut ticks = 0;
    while (state.seen.len() as u32) < state.spec.signals {
        ticks += 1;
        let tick = cx.sleep(format!("tick {ticks}"), Duration::from_millis(20 + ticks * 7 % 31));
        if let Either::Left((signal, _)) = select(cx.signal::<u32>("go"), tick).await {
            state.seen.push(signal);
        }
    }
    Ok(state)
}

async fn end<const UNIT: u64>(cx: NodeContext, mut state: State<UNIT>) -> Result<State<UNIT>, String> {
    let approved: bool = cx.interrupt("approve", &state.paid).await;
    outside(&cx).take_time().await;
    match state.spec.end {
        _ if !approved => Err("not approved".into()),
        PlannedEnd::Finishes => Ok(state),
        PlannedEnd::Fails => Err("must fail".into()),
        PlannedEnd::Unstorable => {
            state.rate = f64::NAN;
            Ok(state)
        }
    }
}

/// pay → collect → a map of items → end.
fn graph<const UNIT: u64>() -> CompiledGraph<State<UNIT>>
where
    State<UNIT>: Serialize + DeserializeOwned,
{
    let items = |state: &State<UNIT>| (0..state.spec.items).map(|item| State { item: Some(item), ..state.clone() }).collect();
    let merge = |mut before: State<UNIT>, paid: Vec<State<UNIT>>| {
        before.paid += paid.iter().map(|item| item.paid - before.paid).sum::<u64>();
        before
    };
    Graph::<State<UNIT>>::new("random")
        .add_node("pay", pay::<UNIT>)
        .add_node("collect", collect::<UNIT>)
        .add_node("item", pay_item::<UNIT>)
        .add_node("end", end::<UNIT>)
        .compensate("pay", refund)
        .compensate("item", refund)
        .add_edge("pay", "collect")
        .map("collect", items, "item", "end", merge)
        .add_edge("item", "end")
        .add_edge("end", END)
        .set_entry("pay")
        .compile()
        .unwrap()
}

fn to_cents() -> Migrations {
    Migrations::new().state(1, |mut state| {
        state["paid"] = json!(state["paid"].as_u64().ok_or("no amount")? * 100);
        Ok::<_, &str>(state)
    })
}

struct Simulation<'a> {
    sim: &'a Sim,
    store: MemoryStore,
    outside: Outside,
    specs: Vec<Spec>,
}

impl Simulation<'_> {
    fn random(&self, below: u64) -> u64 {
        self.sim.runtime().random() % below
    }

    async fn pause(&self, millis: u64) {
        self.sim.sleep(Duration::from_millis(1 + self.random(millis))).await;
    }

    fn remote(&self, spec: &Spec) -> RunRemote {
        RunRemote::new(&self.store, spec.id.as_str())
    }

    async fn create(&self, spec: &Spec) {
        let state = State::<1> { spec: spec.clone(), paid: 0, seen: Vec::new(), item: None, rate: 0.5 };
        let run = graph::<1>().run(state).id(spec.id.as_str()).schema(1).runtime(self.sim.runtime());
        run.checkpoint(&self.store).enqueue().await.unwrap();
    }

    /// One process after the other in the same place. Each works for a while and then dies or
    /// closes.
    async fn process(&self) {
        loop {
            let connection =
                FailingConnection::new(self.store.clone()).slow(self.sim.runtime(), Duration::from_millis(self.random(30)));
            let outside = self.outside.clone();
            let worker = Worker::new(&connection)
                .limit(2)
                .lease(LEASE)
                .hold_waiting_for(Duration::from_millis(30))
                .runtime(self.sim.runtime());
            // A rolling deploy: later processes mostly have the second version.
            let is_new = self.sim.now().since_start() > Duration::from_secs(1) && self.random(4) > 0;
            let worker = match is_new {
                true => worker
                    .graph_with(&graph::<100>(), move |run| run.schema(2).migrations(&to_cents()).extension(outside.clone())),
                false => worker.graph_with(&graph::<1>(), move |run| run.schema(1).extension(outside.clone())),
            };
            let worker = worker.start().unwrap();
            self.pause(900).await;
            if self.random(2) == 0 {
                connection.kill();
                drop(worker);
            } else {
                worker.close(Duration::from_millis(self.random(60))).await;
            }
            self.pause(50).await;
        }
    }

    /// A client that sends a run its signals in order and one answer, with pauses in between.
    async fn talk(&self, spec: &Spec) {
        let remote = self.remote(spec);
        for signal in 0..spec.signals {
            self.pause(200).await;
            remote.signal_once("go", &format!("{signal}"), &signal).await.unwrap();
            if self.random(3) == 0 {
                remote.signal_once("go", &format!("{signal}"), &signal).await.unwrap();
            }
            if self.random(4) == 0 {
                remote.pause().await.unwrap();
                self.pause(100).await;
                remote.resume().await.unwrap();
            }
        }
        self.pause(300).await;
        remote.resume_with("approve", &true).await.unwrap();
    }

    /// Deletes a run and creates it again while workers are active.
    async fn recreate(&self, spec: &Spec) {
        self.pause(700).await;
        loop {
            match self.store.delete(&spec.id).await {
                Ok(()) => break,
                Err(_) => self.pause(60).await,
            }
        }
        self.create(spec).await;
    }

    async fn info(&self, spec: &Spec) -> RunInfo {
        self.store.head(&spec.id).await.unwrap()
    }

    /// Waits until every run has ended as expected.
    async fn all_end(&self) {
        while self.sim.now().since_start() < PATIENCE {
            let mut left = Vec::new();
            for spec in &self.specs {
                let status = self.info(spec).await.status;
                let is_over = if spec.end == PlannedEnd::Unstorable { status == RunStatus::Stuck } else { status.has_ended() };
                if !is_over {
                    left.push(spec);
                }
            }
            if left.is_empty() {
                return;
            }
            self.sim.sleep(Duration::from_millis(500)).await;
        }
        for spec in &self.specs {
            eprintln!("{spec:?}: {:?}", self.info(spec).await);
        }
        panic!("not all runs have ended");
    }

    /// The model: what each run must have seen, charged and refunded.
    async fn check(&self) {
        for spec in &self.specs {
            let info = self.info(spec).await;
            let (charged, refunded) = (self.outside.bank.charges(&spec.id), self.outside.bank.refunds(&spec.id));
            assert_eq!(charged, spec.charges(), "{spec:?}");
            match spec.end {
                PlannedEnd::Fails => assert_eq!((info.status, &refunded), (RunStatus::Compensated, &charged), "{spec:?}"),
                _ => assert!(refunded.is_empty(), "{spec:?}: {refunded:?}"),
            }
            if spec.end == PlannedEnd::Unstorable {
                let reason = info.trouble.unwrap_or_default();
                assert!(reason.contains("does not come back") || reason.contains("JSON"), "{spec:?}: {reason}");
                continue;
            }
            let view = self.remote(spec).view().await.unwrap();
            let state = view.tokens[0].state.as_deref().unwrap();
            let (paid, seen) = match info.version.schema {
                1 => serde_json::from_str::<State<1>>(state).map(|state| (state.paid * 100, state.seen)).unwrap(),
                _ => serde_json::from_str::<State<100>>(state).map(|state| (state.paid, state.seen)).unwrap(),
            };
            assert_eq!(seen, (0..spec.signals).collect::<Vec<_>>(), "{spec:?}");
            assert_eq!(paid, u64::from(1 + spec.items) * 100, "{spec:?}");
        }
    }
}

#[test]
fn c15_random_compositions_agree_with_a_model() {
    explore(0..40, |sim| {
        let specs: Vec<Spec> = (0..6).map(|number| Spec::draw(sim, number)).collect();
        let outside = Outside { bank: Bank::default(), clock: sim.runtime() };
        let simulation = Simulation { sim, store: MemoryStore::on(sim.runtime()), outside, specs };
        sim.run(async {
            futures::future::join_all(simulation.specs.iter().map(|spec| simulation.create(spec))).await;
            let talks = futures::future::join_all(simulation.specs.iter().map(|spec| simulation.talk(spec)));
            let ends = async {
                talks.await;
                simulation.all_end().await;
            };
            let processes = futures::future::join(simulation.process(), simulation.process());
            drop(select(Box::pin(ends), Box::pin(processes)).await);
            simulation.check().await;
        });
    });
}

#[test]
fn c6_run_recreated_under_live_drivers_is_driven_once() {
    explore(0..40, |sim| {
        let spec = Spec { id: "again".into(), end: PlannedEnd::Finishes, signals: 0, items: 2 };
        let outside = Outside { bank: Bank::default(), clock: sim.runtime() };
        let simulation = Simulation { sim, store: MemoryStore::on(sim.runtime()), outside, specs: vec![spec.clone()] };
        sim.run(async {
            simulation.create(&spec).await;
            let first = simulation.info(&spec).await.instance;
            let ends = async {
                simulation.recreate(&spec).await;
                simulation.remote(&spec).resume_with("approve", &true).await.unwrap();
                simulation.all_end().await;
            };
            let processes = futures::future::join(simulation.process(), simulation.process());
            drop(select(Box::pin(ends), Box::pin(processes)).await);
            let info = simulation.info(&spec).await;
            assert!(info.instance != first && info.status == RunStatus::Finished, "{info:?}");
            // The keys of the first and the second run differ.
            let view = simulation.remote(&spec).view().await.unwrap();
            let state = view.tokens[0].state.as_deref().unwrap();
            let unit = if info.version.schema == 1 { 1 } else { 100 };
            assert_eq!(serde_json::from_str::<State<1>>(state).unwrap().paid, 3 * unit);
        });
    });
}
