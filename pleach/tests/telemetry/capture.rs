//! A subscriber that keeps what it gets, for one test.

use crate::common::Log;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber, span};

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

/// The lines of this thread since [`capture`].
#[derive(Clone)]
pub struct Captured {
    lines: Log<Line>,
    level: Arc<AtomicUsize>,
}

impl Captured {
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
    let captured = Captured { lines: Log::new(), level: Arc::new(AtomicUsize::new(rank(level))) };
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

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        self.lines.push(Line { level: *metadata.level(), target: metadata.target().to_string(), fields: fields.0 });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
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
