//! What is logged while a test runs.

use super::Log;
use std::sync::LazyLock;

/// All that the tests of this process log, as `LEVEL field=value ..`. Ask for it before the first thing is logged: `tracing` remembers for each
/// place in the code whether anybody wanted to hear of it.
pub fn logged() -> &'static Log<String> {
    static LOGGED: LazyLock<Log<String>> = LazyLock::new(|| {
        let log = Log::new();
        tracing::subscriber::set_global_default(Notes(log.clone())).unwrap();
        log
    });
    &LOGGED
}

struct Notes(Log<String>);

impl tracing::Subscriber for Notes {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("pleach")
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
