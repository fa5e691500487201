//! A subscriber that keeps what it gets, for one test.

use crate::common::Log;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber, span};
use tracing_core::span::Current;

/// One captured line.
#[derive(Clone, Debug)]
pub struct Line {
    pub level: Level,
    pub target: String,
    pub fields: BTreeMap<String, String>,
}

impl Line {
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    pub fn message(&self) -> &str {
        self.field("message")
    }
}

/// One captured span.
#[derive(Clone, Debug)]
pub struct SpanRecord {
    pub id: u64,
    pub parent: Option<u64>,
    pub name: String,
    pub target: String,
    pub fields: BTreeMap<String, String>,
    pub entered: usize,
    pub exited: usize,
    pub is_closed: bool,
    handles: usize,
    metadata: &'static Metadata<'static>,
}

/// The lines and spans of this thread since [`capture`].
#[derive(Clone)]
pub struct Captured {
    lines: Log<Line>,
    spans: Arc<Mutex<Spans>>,
    level: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Spans {
    all: Vec<SpanRecord>,
    entered: Vec<u64>,
}

impl Captured {
    /// Returns all spans, in the order in which they began.
    pub fn spans(&self) -> Vec<SpanRecord> {
        self.spans.lock().unwrap().all.clone()
    }

    fn span<R>(&self, id: &span::Id, f: impl FnOnce(&mut SpanRecord) -> R) -> R {
        let mut spans = self.spans.lock().unwrap();
        f(&mut spans.all[id.into_u64() as usize - 1])
    }

    /// Takes the lines of this target.
    pub fn take(&self, target: &str) -> Vec<Line> {
        let mut lines = self.lines.take();
        lines.retain(|line| line.target == target);
        lines
    }

    /// Takes all lines.
    pub fn take_all(&self) -> Vec<Line> {
        self.lines.take()
    }

    /// Changes the level, as a reload of a filter does.
    pub fn set_level(&self, level: Level) {
        self.level.store(rank(level), Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }
}

fn rank(level: Level) -> usize {
    [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE].iter().position(|known| *known == level).unwrap()
}

/// Captures the lines of this thread, up to `level`, until the guard is dropped.
pub fn capture(level: Level) -> (Captured, DefaultGuard) {
    let captured = Captured { lines: Log::new(), spans: Arc::default(), level: Arc::new(AtomicUsize::new(rank(level))) };
    let guard = tracing::subscriber::set_default(captured.clone());
    (captured, guard)
}

impl Subscriber for Captured {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("pleach") && rank(*metadata.level()) <= self.level.load(Relaxed)
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut spans = self.spans.lock().unwrap();
        let parent = match attributes.parent() {
            Some(parent) => {
                let parent = parent.into_u64();
                assert!(!spans.all[parent as usize - 1].is_closed, "a parent is open until its children have begun");
                Some(parent)
            }
            None if attributes.is_contextual() => spans.entered.last().copied(),
            None => None,
        };
        let (id, metadata) = (spans.all.len() as u64 + 1, attributes.metadata());
        spans.all.push(SpanRecord {
            id,
            parent,
            name: metadata.name().to_string(),
            target: metadata.target().to_string(),
            fields: fields.0,
            entered: 0,
            exited: 0,
            is_closed: false,
            handles: 1,
            metadata,
        });
        span::Id::from_u64(id)
    }

    fn clone_span(&self, id: &span::Id) -> span::Id {
        self.span(id, |span| span.handles += 1);
        id.clone()
    }

    fn try_close(&self, id: span::Id) -> bool {
        self.span(&id, |span| {
            span.handles -= 1;
            span.is_closed = span.handles == 0;
            span.is_closed
        })
    }

    fn current_span(&self) -> Current {
        let spans = self.spans.lock().unwrap();
        match spans.entered.last() {
            Some(id) => Current::new(span::Id::from_u64(*id), spans.all[*id as usize - 1].metadata),
            None => Current::none(),
        }
    }

    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        self.span(id, |span| span.fields.extend(fields.0));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        self.lines.push(Line { level: *metadata.level(), target: metadata.target().to_string(), fields: fields.0 });
    }

    fn enter(&self, id: &span::Id) {
        self.span(id, |span| span.entered += 1);
        self.spans.lock().unwrap().entered.push(id.into_u64());
    }

    fn exit(&self, id: &span::Id) {
        self.span(id, |span| span.exited += 1);
        let mut spans = self.spans.lock().unwrap();
        let last = spans.entered.pop();
        assert_eq!(last, Some(id.into_u64()), "spans are left in order");
    }
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_string(), value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_string(), format!("{value:?}"));
    }
}
