//! O4: one span for each handled message where asked for, linked to the sender's span.

use crate::capture::{Captured, Captured as Spans, SpanRecord, capture};
use crate::common::{Gate, INJECTED, Job, Log, TestActor, quiet};
use pleach::actor::{Priority, PriorityEnvelope};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::telemetry::Instruments;
use tracing::Level;

fn traced_system(sim: &Sim) -> ActorSystem {
    ActorSystem::builder("s").runtime(sim.runtime()).instrument(Instruments::new().spans()).build().unwrap()
}

fn traced(system: &ActorSystem, name: &str) -> ActorRef<Job> {
    system.spawn(name, TestActor::props(&Log::new()).label("test").instrumented()).unwrap()
}

/// The message spans, in the order in which they began.
fn messages(captured: &Spans) -> Vec<SpanRecord> {
    captured.spans().into_iter().filter(|span| span.target == "pleach::message").collect()
}

/// The parents of a span, as paths of actors or names, from itself to the root.
fn chain(captured: &Captured, span: &SpanRecord) -> Vec<String> {
    let spans = captured.spans();
    let mut chain = Vec::new();
    let mut next = Some(span.clone());
    while let Some(span) = next {
        let path = span.fields.get("messaging.destination.name").cloned();
        chain.push(path.unwrap_or(span.name));
        next = span.parent.and_then(|parent| spans.iter().find(|span| span.id == parent).cloned());
    }
    chain
}

#[test]
fn o4_message_span_is_a_child_of_the_senders_span() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = traced_system(&sim);
    let (a, b, c) = (traced(&system, "a"), traced(&system, "b"), traced(&system, "c"));
    let request = tracing::info_span!(target: "pleach::test", "request");
    let work = Job::work(move |_| async move {
        // A tell, an ask, and a send through an adapter, from within a handler.
        b.tell(Job::Note(1)).unwrap();
        let asked = c.ask(|reply| Job::Answer(reply, 7)).await.unwrap();
        assert_eq!(asked, 7);
        b.map(Job::Note).send(2).await.unwrap();
        Ok(())
    });
    request.in_scope(|| a.tell(work).unwrap());
    drop(request);
    sim.settle();
    let spans = messages(&captured);
    let chains: Vec<_> = spans.iter().map(|span| chain(&captured, span)).collect();
    assert_eq!(chains[0], ["/user/a", "request"]);
    assert_eq!(chains.len(), 4, "{chains:?}");
    for (path, count) in [("/user/b", 2), ("/user/c", 1)] {
        let expected = [path, "/user/a", "request"];
        assert_eq!(chains.iter().filter(|chain| **chain == expected).count(), count, "{chains:?}");
    }
    let field = |name: &str| spans[0].fields[name].clone();
    assert_eq!(field("otel.name"), "process test");
    assert_eq!((field("otel.kind"), field("messaging.system")), ("consumer".into(), "pleach".into()));
    assert!(spans.iter().all(|span| span.is_closed && span.entered == span.exited && span.entered > 0), "{spans:?}");
}

#[test]
fn o4_context_stays_with_its_message_in_every_mailbox() {
    for mailbox in [
        Mailbox::unbounded(),
        Mailbox::bounded(4),
        Mailbox::bounded(4).drop_oldest(),
        Mailbox::bounded(4).drop_newest(),
        Mailbox::bounded(4).prioritised(),
        Mailbox::conflated(),
    ] {
        let (captured, _guard) = capture(Level::INFO);
        let sim = Sim::new(1);
        let system = traced_system(&sim);
        let log = Log::new();
        let (gate, seen) = (Gate::new(), Log::new());
        let actor = system.spawn("a", TestActor::props(&log).mailbox(mailbox).instrumented()).unwrap();
        actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
        sim.settle();
        // Each message notes the span that it was sent in, and the parent of the span that it is
        // handled in.
        let senders = sim.scope();
        for n in 0..12_u8 {
            let (span, seen) = (tracing::info_span!(target: "pleach::test", "sender"), seen.clone());
            let (actor, captured) = (actor.clone(), captured.clone());
            let id = span.id().unwrap().into_u64();
            let message = Job::act(move |_| {
                let current = tracing::Span::current().id().unwrap().into_u64();
                let parent = captured.spans().into_iter().find(|span| span.id == current).and_then(|span| span.parent);
                seen.push((id, parent));
            });
            let is_prioritised = mailbox == Mailbox::bounded(4).prioritised();
            let priority = if is_prioritised { Priority::new(n % 8).unwrap() } else { Priority::NORMAL };
            let send = async move {
                match n % 3 {
                    0 => drop(actor.tell_envelope(PriorityEnvelope::new(message, priority))),
                    1 => drop(actor.try_send(message)),
                    _ => drop(actor.send(message).priority(priority).await),
                }
            };
            senders.launch(tracing::Instrument::instrument(send, span)).unwrap();
        }
        sim.settle();
        gate.open();
        sim.settle();
        let seen = seen.take();
        assert!(!seen.is_empty());
        for (sent_in, parent) in seen {
            assert_eq!(parent, Some(sent_in), "{mailbox:?}");
        }
    }
}

#[test]
fn o4_messages_without_a_sender_begin_a_new_trace() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = traced_system(&sim);
    let actor = traced(&system, "a");
    let request = tracing::info_span!(target: "pleach::test", "request");
    let set_timers = Job::act(|cx| {
        cx.send_after(Duration::from_secs(1), Job::Note(1));
        cx.send_after(Duration::from_secs(1), Job::Note(2));
    });
    request.in_scope(|| actor.tell(set_timers).unwrap());
    sim.settle();
    // A timer fires together with a message that has a sender.
    sim.advance(Duration::from_millis(999));
    request.in_scope(|| actor.tell(Job::Note(3)).unwrap());
    sim.advance(Duration::from_millis(1));
    actor.tell(Job::Note(4)).unwrap();
    sim.settle();
    let with_parent = messages(&captured).iter().filter(|span| span.parent.is_some()).count();
    assert_eq!((messages(&captured).len(), with_parent), (5, 2), "{:?}", messages(&captured));
}

#[test]
fn o4_failed_and_dropped_handlers_end_their_span_as_errors() {
    quiet();
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = traced_system(&sim);
    let actor = traced(&system, "a");
    actor.tell(Job::Fail("no")).unwrap();
    actor.tell(Job::Panic(INJECTED)).unwrap();
    actor.tell(Job::Note(1)).unwrap();
    actor.tell(Job::Pass(Gate::new(), 1)).unwrap();
    sim.settle();
    actor.cancel(());
    sim.settle();
    let spans = messages(&captured);
    let outcomes: Vec<_> = spans.iter().map(|span| span.fields.get("error.type").cloned().unwrap_or_default()).collect();
    assert_eq!(outcomes, ["failed", "failed", "", "dropped"]);
    assert!(spans.iter().all(|span| span.is_closed && span.entered == span.exited), "{spans:?}");
    let incarnations: Vec<_> = spans.iter().map(|span| span.fields["pleach.incarnation"].clone()).collect();
    assert_eq!(incarnations, ["0", "1", "2", "2"]);
}

#[test]
fn o4_spans_cover_pools_and_groups() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = traced_system(&sim);
    let pool = system.pool("pool", 2, |_| TestActor::props(&Log::new()).instrumented()).build().unwrap();
    let actor = traced(&system, "a");
    let target = traced(&system, "b");
    let group = std::sync::Arc::new(system.group::<()>("group").build().unwrap());
    let tasks = std::sync::Arc::clone(&group);
    actor
        .tell(Job::work(move |_| async move {
            pool.tell(Job::Note(1)).unwrap();
            // A task of a group runs outside of the handler, so it takes the span along.
            let task = async move { target.tell(Job::Note(2)).unwrap() };
            assert!(tasks.try_go(tracing::Instrument::in_current_span(task)).is_ok());
            Ok(())
        }))
        .unwrap();
    sim.settle();
    let chains: Vec<_> = messages(&captured).iter().map(|span| chain(&captured, span)).collect();
    assert_eq!(chains.len(), 3, "{chains:?}");
    assert!(chains.iter().any(|chain| chain[0].starts_with("/user/pool/") && chain[1] == "/user/a"), "{chains:?}");
    assert!(chains.contains(&vec!["/user/b".to_string(), "/user/a".to_string()]), "{chains:?}");
}

#[test]
fn o4_only_actors_that_ask_have_spans() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = traced_system(&sim);
    TestActor::spawn(&system, "plain").tell(Job::Note(1)).unwrap();
    sim.settle();
    assert_eq!(messages(&captured).len(), 0);
    let builder = ActorSystem::builder("all").runtime(sim.runtime()).instrument(Instruments::new().spans());
    let system = builder.instrument_all().build().unwrap();
    TestActor::spawn(&system, "plain").tell(Job::Note(1)).unwrap();
    sim.settle();
    assert_eq!(messages(&captured).len(), 1);
    // Without an instrument there is nothing to run.
    let system = sim.system("without");
    traced(&system, "a").tell(Job::Note(1)).unwrap();
    sim.settle();
    assert_eq!(messages(&captured).len(), 1);
}
