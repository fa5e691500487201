//! `Mounted`: a whole system as a child of another system's scope.
//!
//! In the outer tree the mounted system is one actor. The actor owns the inner `System`, so the
//! inner system ends with it.
//!
//! | outer scope | effect on the inner system |
//! |---|---|
//! | stops or closes | shuts down within 3/4 of the outer system's grace, then is cancelled |
//! | is cancelled | is cancelled with the same cause |
//! | waits for its children | is waited for |
//!
//! | inner system | effect on the outer scope |
//! |---|---|
//! | a failure reaches its root and no root handler takes it | `Context::escalate` of the actor |
//! | ends without a request | the actor stops |
//!
//! Both systems keep their own ids, paths, counts and events.

use crate::actor::Actor;
use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::base::lock::Lock;
use crate::base::sync::Arc;
use crate::events::cause::Exit;
use crate::events::failure::FailureInfo;
use crate::scope::Scope;
use crate::supervise::decide::RestartPolicy;
use crate::system::System;
use crate::system::root_context::RootContext;
use crate::tree::adopt::Refusal;
use crate::tree::any_ref::{AnyRef, Exited};
use crate::tree::node;
use crate::tree::supervision::sink::CustomEscalationSink;
use alloc::string::String;
use core::convert::Infallible;
use core::fmt;

/// A handle to a system that is a child of a scope; from [`System::mount`]. Dropping it has no
/// effect.
#[derive(Clone, Debug)]
pub struct Mounted {
    root: RootContext,
    actor: ActorRef<InnerEvent>,
}

impl Mounted {
    /// Returns a handle to the inner system, to spawn, look up, watch and count.
    pub fn root(&self) -> &RootContext {
        &self.root
    }

    /// Returns a reference to the inner system as a member of the outer tree, to stop, close,
    /// cancel, watch or wait for it.
    pub fn any(&self) -> AnyRef {
        self.actor.any()
    }

    /// Waits until the inner system has ended and left the outer tree.
    pub fn exited(&self) -> Exited {
        self.actor.exited()
    }
}

/// A scope refused a system. The system is returned and keeps running.
#[derive(Debug)]
pub struct MountError {
    /// The reason why the scope refused it.
    pub reason: Refusal,
    /// The system that was not mounted.
    pub system: System,
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system {} was not mounted: {}", self.system.name(), self.reason)
    }
}

impl core::error::Error for MountError {}

/// An event of the inner system, sent to its actor in the outer tree.
#[derive(Debug)]
pub(crate) enum InnerEvent {
    Failed(FailureInfo),
    Ended,
}

/// The actor that represents the inner system in the outer tree.
struct MountActor {
    system: System,
}

impl Actor for MountActor {
    type Msg = InnerEvent;
    type Error = Infallible;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Infallible> {
        // If this is refused, the actor is stopping and shuts the system down in `stopped`.
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
            // The shutdown cancels everything that is late, and waits for it.
            _ => drop(self.system.shutdown(all - all / 4).await),
        }
        Ok(())
    }
}

impl System {
    /// Makes this system a child of `scope`, under its own name.
    ///
    /// The system ends with the scope, and the scope waits for it. A failure that reaches the root
    /// of the system, and that no root handler takes, is escalated in the outer tree. Both systems
    /// keep their own runtime, ids, paths, counts and events.
    ///
    /// # Errors
    /// Returns the system in [`MountError`] if the scope is closing, or the name is in use.
    ///
    /// ```
    /// use pleach::runtime::Dispatcher;
    /// use pleach::system::System;
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let outer = System::builder("outer", sim.runtime()).build().unwrap();
    /// let inner = System::builder("inner", sim.runtime()).build().unwrap();
    /// let scope = outer.scope("plugins").unwrap();
    /// let mounted = inner.mount(&scope).unwrap();
    ///
    /// scope.close();
    /// assert!(sim.simulate(mounted.exited()).unwrap().is_clean());
    /// assert!(mounted.root().running().is_empty(), "the inner system ended with the scope");
    /// ```
    pub fn mount(self, scope: &Scope) -> Result<Mounted, MountError> {
        let root = self.root();
        let name = String::from(self.name());
        let handed_over = Arc::new(Lock::new(Some(self)));
        let taken = Arc::clone(&handed_over);
        let props = Props::new(move || MountActor { system: taken.with(Option::take).expect("a temporary actor starts once") })
            .restart(RestartPolicy::Temporary);
        match scope.spawn(&name, props) {
            Ok(actor) => {
                let outer = actor.clone();
                root.escalate_outside(CustomEscalationSink::new(move |failure: FailureInfo| {
                    outer.tell(InnerEvent::Failed(failure.clone())).map_err(|_| failure)
                }));
                Ok(Mounted { root, actor })
            }
            Err(refused) => {
                let system = handed_over.with(Option::take).expect("a refused actor was not started");
                Err(MountError { reason: refused.reason, system })
            }
        }
    }
}
