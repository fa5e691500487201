//! The loop of a cell on a thread of the model: control and senders against a real actor, from its
//! first poll to its exit.
//!
//! Proves: A2 (conservation at the exit), A7 (stop and cancel), A10 (an ask never hangs), A18 (a
//! resume after a suspend is not lost), T7 (an actor started in a cancelled scope ends with it).

use crate::actor::Actor;
use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::actor::reply::Reply;
use crate::actor::system_message::SystemMessage;
use crate::events::cause::{Cause, Exit};
use crate::models::{ManualRuntime, block_on, explore};
use crate::scope::Scope;
use crate::tree::waits::ask_error::AskError;
use alloc::sync::Arc;
use core::convert::Infallible;
use core::future::pending;
use loom::thread::{self, JoinHandle};

/// Executes the command in each message.
struct TestActor;

enum Command {
    Nothing,
    Hang,
    Answer(Reply<u32>),
}

impl Actor for TestActor {
    type Msg = Command;
    type Error = Infallible;

    async fn handle(&mut self, command: Command, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        match command {
            Command::Nothing => {}
            Command::Hang => pending().await,
            Command::Answer(reply) => reply.send(7),
        }
        Ok(())
    }
}

/// Starts an actor in a scope, and a thread that runs it.
fn start() -> (Scope, ActorRef<Command>, JoinHandle<()>) {
    let runtime = ManualRuntime::new();
    let scope = Scope::under(&runtime.token());
    let actor = scope.spawn("a", Props::new(|| TestActor)).unwrap();
    (scope, actor, thread::spawn(move || runtime.run_spawned()))
}

fn assert_settled(actor: &ActorRef<Command>) {
    let counts = actor.counts();
    assert!(counts.is_settled() && actor.queued() == 0, "{counts}");
}

#[test]
fn loom_a2_a7_stop_against_tell() {
    explore(|| {
        let (_scope, actor, runs) = start();
        let to = actor.clone();
        let teller = thread::spawn(move || to.tell(Command::Nothing).is_ok());
        actor.stop();
        assert_eq!(block_on(actor.exited()), Exit::Stopped);
        let accepted = teller.join().unwrap();
        runs.join().unwrap();
        assert_eq!(actor.counts().accepted, u64::from(accepted));
        assert_settled(&actor);
    });
}

#[test]
fn loom_a2_a7_close_against_tell() {
    explore(|| {
        let (_scope, actor, runs) = start();
        let to = actor.clone();
        let teller = thread::spawn(move || to.tell(Command::Nothing).is_ok());
        actor.close();
        assert_eq!(block_on(actor.exited()), Exit::Closed);
        let accepted = teller.join().unwrap();
        runs.join().unwrap();
        assert_eq!(actor.counts().handled, u64::from(accepted), "the end of input loses nothing");
        assert_settled(&actor);
    });
}

#[test]
fn loom_a7_cancel_against_a_handler_that_hangs() {
    explore(|| {
        let (_scope, actor, runs) = start();
        assert!(actor.tell(Command::Hang).is_ok());
        let to = actor.clone();
        let teller = thread::spawn(move || to.tell(Command::Nothing).is_ok());
        actor.cancel("now");
        assert_eq!(block_on(actor.exited()), Exit::Cancelled("now".into()));
        teller.join().unwrap();
        runs.join().unwrap();
        assert_eq!(actor.counts().handled, 0);
        assert_settled(&actor);
    });
}

/// However the suspend is handled, the resume takes effect in the end and the message is handled.
#[test]
fn loom_a18_resume_after_suspend_is_not_lost() {
    explore(|| {
        let (_scope, actor, runs) = start();
        assert!(actor.try_send_system(SystemMessage::Suspend).is_ok());
        assert!(actor.try_send_system(SystemMessage::Resume).is_ok());
        assert!(actor.tell(Command::Nothing).is_ok());
        actor.close();
        assert_eq!(block_on(actor.exited()), Exit::Closed);
        runs.join().unwrap();
        assert_eq!(actor.counts().handled, 1);
        assert_settled(&actor);
    });
}

#[test]
fn loom_a10_ask_against_stop() {
    explore(|| {
        let (_scope, actor, runs) = start();
        let to = actor.clone();
        let asker = thread::spawn(move || block_on(to.ask(Command::Answer)));
        actor.stop();
        let answer = asker.join().unwrap();
        assert!(matches!(answer, Ok(7) | Err(AskError::Closed)), "{answer:?}");
        runs.join().unwrap();
        assert_settled(&actor);
    });
}

#[test]
fn loom_t7_start_against_cancel_of_the_scope() {
    explore(|| {
        let runtime = ManualRuntime::new();
        let scope = Arc::new(Scope::under(&runtime.token()));
        let parent = Arc::clone(&scope);
        let starter = thread::spawn(move || {
            let started = parent.spawn("a", Props::new(|| TestActor)).ok();
            runtime.run_spawned();
            started
        });
        scope.cancel("now");
        assert!(block_on(scope.wait_all()).is_ok());
        if let Some(actor) = starter.join().unwrap() {
            assert_eq!(actor.exit(), Some(Exit::Cancelled(Cause::from("now"))));
        }
        assert_eq!(block_on(scope.exited()), Exit::Cancelled("now".into()));
    });
}
