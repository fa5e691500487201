//! [`Instruments`]: a span, and a measured time, for each message of the actors that ask for it.

use pleach_core::{HandledMessage, HandlerOutcome, HandlerSpan, Instrument, SendContext};
#[cfg(feature = "metrics")]
use pleach_core::{Instant, Runtime};
use std::sync::Arc;
#[cfg(feature = "spans")]
use tracing::Span;

/// What is recorded for each message of an instrumented actor: a span, its time, or both.
///
/// Give it to the builder of a system, and choose the actors with
/// [`Props::instrumented`](pleach_core::Props::instrumented), or all of them with
/// [`instrument_all`](pleach_core::SystemBuilder::instrument_all). Other actors pay nothing.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::telemetry::Instruments;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let instruments = Instruments::new();
/// # #[cfg(feature = "spans")]
/// let instruments = instruments.spans();
/// let system = ActorSystem::builder("shop").instrument(instruments).build()?;
/// let props = Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(()));
/// let till = system.spawn("till", props.label("till").instrumented())?;
/// till.tell(7)?; // its span is a child of the current span
/// # system.shutdown(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "give it to `instrument` of the system's builder"]
pub struct Instruments {
    #[cfg(feature = "spans")]
    spans: bool,
    #[cfg(feature = "metrics")]
    clock: Option<(String, Arc<dyn Runtime>)>,
}

impl Instruments {
    /// Creates instruments that record nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a `tracing` span at level `INFO` for each message, as a child of the sender's current
    /// span: across `tell`, `send`, `ask`, pools, topics and adapters.
    ///
    /// The span is named `process` and has target `pleach::message`. Its fields follow the
    /// messaging conventions of OpenTelemetry; `docs/telemetry.md` lists them. A message without a
    /// sender (of a timer, a feed, the stash or a retry), and one sent outside of all spans, begins
    /// a new trace.
    #[cfg(feature = "spans")]
    pub fn spans(mut self) -> Self {
        self.spans = true;
        self
    }

    /// Records the histogram `pleach.handler.duration` (seconds) for each message, with the labels
    /// `system`, `actor` and `outcome`. `runtime` is the clock: that of the system.
    #[cfg(feature = "metrics")]
    pub fn handler_times(mut self, system: &str, runtime: Arc<dyn Runtime>) -> Self {
        self.clock = Some((system.to_string(), runtime));
        self
    }
}

impl std::fmt::Debug for Instruments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instruments").finish_non_exhaustive()
    }
}

impl Instrument for Instruments {
    fn capture(&self) -> Option<SendContext> {
        #[cfg(feature = "spans")]
        if self.spans {
            let span = Span::current();
            return (!span.is_none()).then(|| Arc::new(span) as SendContext);
        }
        None
    }

    fn begin(&self, message: &HandledMessage, sent: Option<SendContext>) -> Box<dyn HandlerSpan> {
        let _ = &sent;
        Box::new(Handling {
            #[cfg(feature = "spans")]
            span: if self.spans { message_span(message, &sent) } else { Span::none() },
            #[cfg(feature = "metrics")]
            timer: self.clock.as_ref().map(|(system, runtime)| Timer {
                system: system.clone(),
                actor: message.label,
                runtime: Arc::clone(runtime),
                began: runtime.now(),
            }),
        })
    }
}

/// Makes the span of one message, as a child of the sender's span.
#[cfg(feature = "spans")]
fn message_span(message: &HandledMessage, sent: &Option<SendContext>) -> Span {
    // `sent` keeps the sender's span open until the new span has begun.
    let parent = sent.as_ref().and_then(|sent| sent.downcast_ref::<Span>()?.id());
    tracing::info_span!(
        target: "pleach::message",
        parent: parent,
        "process",
        otel.name = %format_args!("process {}", message.label),
        otel.kind = "consumer",
        messaging.system = "pleach",
        messaging.operation.type = "process",
        messaging.destination.name = %message.path,
        pleach.actor = message.label,
        pleach.message_type = message.message_type,
        pleach.incarnation = message.incarnation,
        otel.status_code = tracing::field::Empty,
        error.r#type = tracing::field::Empty,
    )
}

#[cfg(feature = "metrics")]
struct Timer {
    system: String,
    actor: &'static str,
    runtime: Arc<dyn Runtime>,
    began: Instant,
}

/// One message that is being handled.
struct Handling {
    #[cfg(feature = "spans")]
    span: Span,
    #[cfg(feature = "metrics")]
    timer: Option<Timer>,
}

impl HandlerSpan for Handling {
    fn enter(&mut self) {
        #[cfg(feature = "spans")]
        self.span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
    }

    fn exit(&mut self) {
        #[cfg(feature = "spans")]
        self.span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
    }

    fn end(&mut self, outcome: HandlerOutcome) {
        let outcome = match outcome {
            HandlerOutcome::Handled => "handled",
            HandlerOutcome::Failed => "failed",
            _ => "dropped",
        };
        #[cfg(feature = "spans")]
        if outcome != "handled" {
            self.span.record("otel.status_code", "ERROR");
            self.span.record("error.type", outcome);
        }
        #[cfg(feature = "metrics")]
        if let Some(Timer { system, actor, runtime, began }) = self.timer.take() {
            let seconds = runtime.now().since(began).as_secs_f64();
            metrics::histogram!("pleach.handler.duration", "system" => system, "actor" => actor, "outcome" => outcome)
                .record(seconds);
        }
    }
}
