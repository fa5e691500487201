//! `Mounted`: a whole system as a child of another system's scope.
//!
//! In the outer tree the mounted system is one actor. It owns the inner `System`, so that everything it holds ends with it:
//!
//! | outer scope | inner system |
//! |---|---|
//! | stops or closes | shuts down within three quarters of the outer system's grace, then is cancelled |
//! | is cancelled | is cancelled with the same cause |
//! | waits for its children | is waited for |
//!
//! | inner system | outer scope |
//! |---|---|
//! | a failure comes up to its root, and no root handler took it | `Context::escalate` of the actor that stands for it |
//! | ends by itself | that actor stops |
//!
//! Both keep their own ids, paths, counts and events.

use crate::actor::Actor;
use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::base::lock::Lock;
use crate::events::cause::Exit;
use crate::events::failure::FailureInfo;
use crate::scope::Scope;
use crate::supervise::decide::RestartPolicy;
use crate::system::System;
use crate::system::root_context::RootContext;
use crate::tree::adopt::Refusal;
use crate::tree::any_ref::{AnyRef, Exited};
use crate::tree::node;
use crate::tree::supervision::escalate::CustomEscalationSink;
use alloc::string::String;
use alloc::sync::Arc;
use core::convert::Infallible;
use core::fmt;

/// A handle on a system that is a child of a scope; from [`System::mount`]. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Mounted {
    root: RootContext,
    actor: ActorRef<InnerEvent>,
}

impl Mounted {
    /// The inner system as seen from outside: spawn, look up, watch and count.
    pub fn root(&self) -> &RootContext {
        &self.root
    }

    /// The inner system as something in the outer tree: to stop, close, cancel, watch or wait for.
    pub fn any(&self) -> AnyRef {
        self.actor.any()
    }

    /// Waits until the inner system has ended and its scope has let go of it.
    pub fn exited(&self) -> Exited {
        self.actor.exited()
    }
}

/// The scope takes no system. The system comes back, and runs.
#[derive(Debug)]
pub struct MountError {
    /// Why the scope refused.
    pub why: Refusal,
    /// The system that was to be mounted.
    pub system: System,
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system {} was not mounted: {}", self.system.name(), self.why)
    }
}

impl core::error::Error for MountError {}

/// What the inner system tells the actor that stands for it.
#[derive(Debug)]
pub(crate) enum InnerEvent {
    Failed(FailureInfo),
    Ended,
}

/// The inner system in the outer tree.
struct MountActor {
    system: System,
}

impl Actor for MountActor {
    type Msg = InnerEvent;
    type Error = Infallible;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Infallible> {
        // A refusal means that this actor is ending already, and takes the system along.
        drop(cx.pipe_to_self(self.system.ended(), |_| InnerEvent::Ended));
        Ok(())
    }

    async fn handle(&mut self, event: InnerEvent, cx: &mut Context<Self>) -> Result<(), Infallible> {
        match event {
            InnerEvent::Failed(failure) => drop(cx.escalate(failure)),
            InnerEvent::Ended => cx.stop(),
        }
        Ok(())
    }

    async fn stopped(&mut self, exit: &Exit, cx: &mut Context<Self>) -> Result<(), Infallible> {
        let all = cx.cell().node().tree().grace;
        match exit {
            Exit::Cancelled(cause) | Exit::TidiedUp(cause) => {
                node::cancel(&self.system.root_member(), cause);
                drop(self.system.ended().await);
            }
            // Whatever is late is cancelled by the shutdown, which then waits for it.
            _ => drop(self.system.shutdown(all - all / 4).await),
        }
        Ok(())
    }
}

impl System {
    /// Makes this system a child of `scope`, under its own name: it ends with the scope, and the scope waits for it. Failures that
    /// come up to its root, and that no root handler takes, are escalated in the outer tree.
    ///
    /// Both systems keep their own runtime, ids, paths, counts and events. Refused, the system comes back.
    pub fn mount(self, scope: &Scope) -> Result<Mounted, MountError> {
        let root = self.root();
        let name = String::from(self.name());
        let handed_over = Arc::new(Lock::new(Some(self)));
        let taken = Arc::clone(&handed_over);
        let props = Props::new(move || MountActor { system: taken.with(Option::take).expect("a temporary actor starts once") })
            .restart(RestartPolicy::Temporary);
        match scope.actor(&name, props) {
            Ok(actor) => {
                let outer = actor.clone();
                root.escalate_outside(CustomEscalationSink::new(move |failure: FailureInfo| {
                    outer.tell(InnerEvent::Failed(failure.clone())).map_err(|_| failure)
                }));
                Ok(Mounted { root, actor })
            }
            Err(refused) => {
                let system = handed_over.with(Option::take).expect("a refused actor was not started");
                Err(MountError { why: refused.why, system })
            }
        }
    }
}
