//! The durable orders as the show sees them: read from the store, as `pleach runs` reads it.
//!
//! The store answers also while no worker process lives.

use crate::demo::folder::Places;
use crate::demo::till::{Charges, Till};
use crate::demo::worker::orders::{GRAPH, OrderState, QUESTION, STEPS, joined, next_steps};
use pleach::durable::{RunRemote, RunView};
use pleach::prelude::*;
use pleach::store::{Filter, Place, RunInfo, RunStatus};

/// How many orders are shown, the newest first.
const SHOWN_MAX: usize = 40;

/// How many runs the audit reads at once.
const PAGE: usize = 200;

/// How far a step of an order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    Open,
    /// It is being done, or begins next.
    Current,
    /// It waits for an answer.
    Waiting,
    Done,
}

/// One order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRow {
    pub id: String,
    pub status: RunStatus,
    /// The last durable record.
    pub record: u64,
    pub steps: [StepState; STEPS.len()],
    pub cents: u64,
}

/// All orders that are shown, and the till.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrdersSeen {
    pub rows: Vec<OrderRow>,
    pub charges: Charges,
}

/// The store and the till of a demo.
#[derive(Clone)]
pub struct OrderBook {
    store: SqliteStore,
    till: Till,
}

type BoxError = pleach::BoxError;

impl OrderBook {
    pub async fn open(places: &Places) -> Result<Self, BoxError> {
        Ok(Self { store: SqliteStore::open_existing(places.store()).await?, till: Till::at(places.till()) })
    }

    /// Reads the newest orders.
    pub async fn look(&self) -> Result<OrdersSeen, BoxError> {
        let newest = self.store.list(vec![Filter::Graph(GRAPH.into())], None, SHOWN_MAX).await?.runs;
        let mut rows = Vec::new();
        for info in newest {
            rows.push(if info.status.has_ended() { ended(info) } else { self.open_row(info).await? });
        }
        Ok(OrdersSeen { rows, charges: self.till.charges()? })
    }

    async fn open_row(&self, info: RunInfo) -> Result<OrderRow, BoxError> {
        let view = RunRemote::new(&self.store, info.id.as_str()).view().await?;
        let state = state_of(&view);
        Ok(OrderRow { id: info.id, status: view.status, record: info.head, steps: steps(&view, &state), cents: state.cents })
    }

    /// Answers the question of an order, as `pleach runs answer` does.
    pub async fn approve(&self, run: &str) -> Result<(), BoxError> {
        RunRemote::new(&self.store, run).resume_with(QUESTION, &true).await?;
        Ok(())
    }

    /// Compares all orders with the till.
    pub async fn audit(&self) -> Result<Audit, BoxError> {
        let charges = self.till.charges()?;
        let mut audit =
            Audit { fault: charges.charged_twice().map(|run| format!("{run} was charged twice")), ..Audit::default() };
        let mut after = None;
        loop {
            let page = self.store.list(vec![Filter::Graph(GRAPH.into())], after, PAGE).await?;
            for info in page.runs {
                self.audit_run(&mut audit, &charges, info).await?;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        (audit.charged, audit.repeated) = (charges.made(), charges.repeated);
        Ok(audit)
    }

    async fn audit_run(&self, audit: &mut Audit, charges: &Charges, info: RunInfo) -> Result<(), BoxError> {
        let charged = charges.of(&info.id);
        let paid = match info.status {
            RunStatus::Finished => {
                audit.shipped += 1;
                Some(true)
            }
            status if status.has_ended() => {
                audit.failed += 1;
                None
            }
            status => {
                let view = RunRemote::new(&self.store, info.id.as_str()).view().await?;
                audit.waiting += u64::from(status == RunStatus::Waiting);
                audit.under_way += u64::from(status != RunStatus::Waiting);
                // A kill can leave a charge whose result is not recorded yet: the next worker asks
                // again, with the same key.
                (state_of(&view).paid > 0).then_some(true)
            }
        };
        if paid == Some(true) && charged != 1 {
            audit.fault.get_or_insert(format!("{} is paid, but the till has {charged} charges for it", info.id));
        }
        Ok(())
    }
}

/// What became of all orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    pub shipped: u64,
    pub under_way: u64,
    pub waiting: u64,
    pub failed: u64,
    /// How many charges were made, and how many requests repeated a key.
    pub charged: u64,
    pub repeated: u64,
    pub fault: Option<String>,
}

impl Audit {
    pub fn orders(&self) -> u64 {
        self.shipped + self.under_way + self.waiting + self.failed
    }
}

fn ended(info: RunInfo) -> OrderRow {
    let steps = if info.status == RunStatus::Finished { StepState::Done } else { StepState::Open };
    OrderRow { id: info.id, status: info.status, record: info.head, steps: [steps; STEPS.len()], cents: 0 }
}

/// Returns the state with the most completed steps. A branch that has not ended yet has no state.
fn state_of(view: &RunView) -> OrderState {
    let states = view.tokens.iter().filter_map(|token| serde_json::from_str::<OrderState>(token.state.as_deref()?).ok());
    states.max_by_key(|state| state.done.len()).unwrap_or_default()
}

/// Returns how far each step is.
fn steps(view: &RunView, state: &OrderState) -> [StepState; STEPS.len()] {
    let mut steps =
        STEPS.map(|step| if state.done.iter().any(|done| done == step) { StepState::Done } else { StepState::Open });
    let mut set = |name: &str, state: StepState| {
        if let Some(at) = STEPS.iter().position(|step| *step == name) {
            steps[at] = state;
        }
    };
    next_steps(view).into_iter().for_each(|step| set(step, StepState::Current));
    joined(view).for_each(|step| set(step, StepState::Done));
    for token in view.tokens.iter().filter(|token| !token.waits.is_empty()) {
        if let Place::Node(node) = &token.at {
            set(node, StepState::Waiting);
        }
    }
    // A fan-out begins with the state before it, in which everything up to it is done.
    if let Some(last) = steps.iter().position(|step| matches!(step, StepState::Current | StepState::Waiting)) {
        steps[..last].iter_mut().filter(|step| **step == StepState::Open).for_each(|step| *step = StepState::Done);
    }
    steps
}
