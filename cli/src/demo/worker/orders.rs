//! The durable runs of the demo: orders. `reserve → approve → pay → (pack, invoice) → ship`.
//!
//! An expensive order waits for an approval. Some orders have an address that cannot be served, and
//! fail until a person corrects it. The payment is an effect: it is made outside, in the
//! till, and its result is recorded in the run.

use super::notes::Notes;
use super::pace::{Dice, Pace};
use crate::demo::protocol::{Note, PickedUp};
use crate::demo::till::Till;
use pleach::durable::RunView;
use pleach::prelude::*;
use pleach::store::{Filter, Place, RunInfo, RunStatus, StoreError};
use pleach::worker::{RunEnd, RunningWorker, Worker, WorkerEvent};
use serde::{Deserialize, Serialize};

/// The name of the graph.
pub const GRAPH: &str = "order";

/// The steps of an order, in order.
pub const STEPS: [&str; 6] = ["reserve", "approve", "pay", "pack", "invoice", "ship"];

/// The steps that run side by side, in the order of their branches.
const BRANCHES: [&str; 2] = ["pack", "invoice"];

/// The key of the question about an expensive order.
pub const QUESTION: &str = "approve";

/// An order of this price waits for an approval.
const EXPENSIVE: u64 = 50_000;

/// Where orders go, and where no truck drives to: each sixteenth order.
const TOWNS: [&str; 4] = ["Ghent", "Lyon", "Porto", "Turin"];
const NO_TOWN: &str = "Atlantis";

/// How many orders are under way, beside orders that wait for an approval.
const UNDER_WAY: usize = 4;

/// The time between two looks for room for a new order.
const LOOK: Duration = Duration::from_millis(400);

/// The most runs of one kind that are looked at.
const LISTED_MAX: usize = 20;

/// How long ended orders are kept.
const KEPT: Duration = Duration::from_secs(600);

/// The state of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OrderState {
    pub cents: u64,
    #[serde(default)]
    pub to: String,
    pub is_approved: bool,
    pub paid: u64,
    pub done: Vec<String>,
}

/// What the steps need.
#[derive(Clone)]
pub struct Shop {
    pub till: Till,
    pub pace: Pace,
    pub notes: Notes,
}

impl Shop {
    /// Begins a step, which takes some time.
    async fn work(cx: &NodeContext, millis: u64) -> Result<Self, BoxError> {
        let shop = cx.extension::<Self>().ok_or("the run has no shop: add it with `extension`")?.clone();
        shop.notes.send(Note::Step { run: cx.run_id().to_string(), step: cx.node().to_string() });
        shop.pace.rest(Duration::from_millis(millis)).await;
        Ok(shop)
    }
}

type BoxError = pleach::BoxError;

impl OrderState {
    fn after(mut self, step: &str) -> Self {
        self.done.push(step.to_string());
        self
    }
}

async fn reserve(cx: NodeContext, order: OrderState) -> Result<OrderState, BoxError> {
    Shop::work(&cx, 700).await?;
    if order.to == NO_TOWN {
        return Err(format!("no truck drives to {NO_TOWN}: correct `to`").into());
    }
    Ok(order.after("reserve"))
}

async fn approve(cx: NodeContext, mut order: OrderState) -> Result<OrderState, BoxError> {
    if order.cents >= EXPENSIVE {
        let shop = Shop::work(&cx, 0).await?;
        shop.notes.send(Note::Asks { run: cx.run_id().to_string(), cents: order.cents });
        order.is_approved = cx.interrupt(QUESTION, &format!("approve the sale for {}.00?", order.cents / 100)).await;
        if !order.is_approved {
            return Err("it was not approved".into());
        }
    }
    Ok(order.after("approve"))
}

async fn pay(cx: NodeContext, mut order: OrderState) -> Result<OrderState, BoxError> {
    let (shop, run, cents) = (Shop::work(&cx, 500).await?, cx.run_id().to_string(), order.cents);
    order.paid += cx
        .effect("charge", move |key| async move {
            shop.till.charge(&run, &key)?;
            // The bank is slow. A kill in this time leaves a charge without a record: it is asked
            // for again, with the same key.
            shop.pace.rest(Duration::from_millis(300)).await;
            Ok::<_, std::io::Error>(cents)
        })
        .await?;
    Ok(order.after("pay"))
}

async fn pack(cx: NodeContext, order: OrderState) -> Result<OrderState, BoxError> {
    Shop::work(&cx, 1_100).await?;
    Ok(order.after("pack"))
}

async fn invoice(cx: NodeContext, order: OrderState) -> Result<OrderState, BoxError> {
    Shop::work(&cx, 600).await?;
    Ok(order.after("invoice"))
}

async fn ship(cx: NodeContext, order: OrderState) -> Result<OrderState, BoxError> {
    Shop::work(&cx, 800).await?;
    Ok(order.after("ship"))
}

fn merge(mut before: OrderState, branches: Vec<OrderState>) -> OrderState {
    let known = before.done.len();
    before.done.extend(branches.into_iter().flat_map(|branch| branch.done.into_iter().skip(known)));
    before
}

fn graph() -> Result<CompiledGraph<OrderState>, pleach::graph::CompileError> {
    Graph::new(GRAPH)
        .add_node("reserve", reserve)
        .add_node("approve", approve)
        .add_node("pay", pay)
        .add_node("pack", pack)
        .add_node("invoice", invoice)
        .add_node("ship", ship)
        .add_edge("reserve", "approve")
        .add_edge("approve", "pay")
        .add_parallel_edge("pay", BRANCHES, "ship", merge)
        .add_edge("pack", "ship")
        .add_edge("invoice", "ship")
        .add_edge("ship", END)
        .set_entry("reserve")
        .compile()
}

/// The part of the worker process that drives runs.
pub struct Orders {
    worker: RunningWorker,
}

impl Orders {
    /// Starts to drive the runs of the store, and to add new ones.
    pub fn start(scope: &Scope, store: &SqliteStore, shop: &Shop, seed: u64) -> Result<Self, BoxError> {
        let graph = graph()?;
        let (extension, notes) = (shop.clone(), shop.notes.clone());
        let worker = Worker::new(store)
            .graph_with(&graph, move |run| run.extension(extension.clone()))
            .name("worker")
            .limit(16)
            .poll_every(Duration::from_millis(200))
            .keep_ended(KEPT)
            .on_event(move |event| note(&notes, event))
            .start_in(scope)?;
        let clerk = Clerk { graph, store: store.clone(), dice: Dice::new(seed, "clerk"), next: 0 };
        scope.task().named("clerk").launch(clerk.serve(shop.pace.clone()))?;
        Ok(Self { worker })
    }

    /// Lets the current steps end, and releases the runs.
    pub async fn close(self) {
        self.worker.close(Duration::from_millis(300)).await;
    }
}

/// Reports the end of a run.
fn note(notes: &Notes, event: &WorkerEvent) {
    let ended = |run: &str, failure| notes.send(Note::Ended { run: run.to_string(), failure });
    match event {
        WorkerEvent::Ended { run, end: RunEnd::Finished } => ended(run, None),
        WorkerEvent::Ended { run, end: RunEnd::Failed { error } } => ended(run, Some(error.clone())),
        WorkerEvent::Ended { run, end: RunEnd::Cancelled } => ended(run, Some("it was cancelled".to_string())),
        _ => {}
    }
}

/// Adds new orders.
struct Clerk {
    graph: CompiledGraph<OrderState>,
    store: SqliteStore,
    dice: Dice,
    /// The number of the next order; 0 before the store was looked at.
    next: u64,
}

impl Clerk {
    async fn serve(mut self, pace: Pace) -> Result<(), BoxError> {
        while !pace.is_finishing() {
            let (running, waiting) = self.under_way().await?;
            if running < UNDER_WAY {
                self.add(waiting == 0).await?;
            }
            pace.rest(LOOK).await;
        }
        Ok(())
    }

    /// Returns how many orders are under way, and how many wait for an approval.
    async fn under_way(&self) -> Result<(usize, usize), StoreError> {
        let mut counts = [0, 0];
        for (count, status) in counts.iter_mut().zip([RunStatus::Running, RunStatus::Waiting]) {
            *count = unended(&self.store, status).await?.len();
        }
        Ok(counts.into())
    }

    /// Adds one order. Every fourth is expensive, if `may_wait`.
    async fn add(&mut self, may_wait: bool) -> Result<(), BoxError> {
        if self.next == 0 {
            self.next = last_number(&self.store).await? + 1;
        }
        let number = self.next;
        let is_expensive = may_wait && number % 4 == 2;
        let cents = 100 * if is_expensive { self.dice.between(600, 990) } else { self.dice.between(5, 400) };
        let to = if number % 16 == 5 { NO_TOWN } else { TOWNS[number as usize % TOWNS.len()] }.to_string();
        let order = OrderState { cents, to, ..OrderState::default() };
        let customer = self.dice.between(1, 40).to_string();
        let run = self.graph.run(order).id(format!("order-{number}")).tag("customer", customer);
        run.checkpoint(&self.store).enqueue().await?;
        self.next += 1;
        Ok(())
    }
}

async fn unended(store: &SqliteStore, status: RunStatus) -> Result<Vec<RunInfo>, StoreError> {
    Ok(store.list(vec![Filter::Graph(GRAPH.into()), Filter::Status(status)], None, LISTED_MAX).await?.runs)
}

/// Returns the number of the newest order.
async fn last_number(store: &SqliteStore) -> Result<u64, StoreError> {
    let newest = store.list(vec![Filter::Graph(GRAPH.into())], None, LISTED_MAX).await?.runs;
    let number = |info: &RunInfo| info.id.strip_prefix("order-")?.parse().ok();
    Ok(newest.iter().filter_map(number).max().unwrap_or(0))
}

/// Returns the runs that an earlier process began and did not end.
pub async fn picked_up(store: &SqliteStore) -> Result<Vec<PickedUp>, BoxError> {
    let mut found = unended(store, RunStatus::Running).await?;
    found.extend(unended(store, RunStatus::Waiting).await?);
    found.sort_by(|a, b| (a.id.len(), &a.id).cmp(&(b.id.len(), &b.id)));
    let mut picked_up = Vec::new();
    for info in found {
        let view = RunRemote::new(store, info.id.as_str()).view().await?;
        let next = next_steps(&view).into_iter().map(str::to_string);
        picked_up.push(PickedUp { next: next.collect(), run: info.id, record: info.head });
    }
    Ok(picked_up)
}

/// Returns the steps that a run is doing, or begins next.
pub fn next_steps(view: &RunView) -> Vec<&str> {
    let mut next = Vec::new();
    for token in &view.tokens {
        match &token.at {
            Place::Node(node) => next.push(node.as_str()),
            Place::Fork(_) => next.extend(BRANCHES),
            // One branch waits there. The other one may have no record yet.
            Place::Join(_) => next.extend(BRANCHES.into_iter().filter(|step| joined(view).all(|done| done != *step))),
            _ => {}
        }
    }
    next.sort_unstable();
    next.dedup();
    next
}

/// Returns the steps whose branch waits for the other one.
pub fn joined(view: &RunView) -> impl Iterator<Item = &'static str> {
    let joined = view.tokens.iter().filter(|token| matches!(token.at, Place::Join(_)));
    joined.filter_map(|token| BRANCHES.get(token.branch.last()?.branch as usize).copied())
}
