//! Captures the log output of the tests.

use super::Log;
use std::sync::LazyLock;

/// All log events of this process up to level `INFO`, as `LEVEL field=value ..`. Call this before
/// the first event: `tracing` caches for each call site whether a subscriber wants it.
pub fn logged() -> &'static Log<String> {
    static LOGGED: LazyLock<Log<String>> = LazyLock::new(|| {
        let log = Log::new();
        tracing::subscriber::set_global_default(Capture(log.clone())).unwrap();
        log
    });
    &LOGGED
}

struct Capture(Log<String>);

impl tracing::Subscriber for Capture {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("pleach") && *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields(String);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!(" {}={value:?}", field.name());
            }
        }
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.0.note(fields.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
