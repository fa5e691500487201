//! The undo of a node: a function that takes a context and the payload recorded by the node.

use crate::context::NodeContext;
use crate::util::future::ErrInto;
use pleach_core::{BoxError, BoxFuture};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::any::{Any, TypeId, type_name};
use std::future::Future;

type UndoCall = dyn Fn(NodeContext, &RawValue) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync;

/// The payload type of an undo.
#[derive(Clone, Copy)]
pub(crate) struct UndoTakes {
    pub(crate) type_id: TypeId,
    pub(crate) name: &'static str,
    /// Decodes a payload of this type from JSON.
    pub(crate) read: fn(&RawValue) -> Result<Box<dyn Any>, serde_json::Error>,
}

/// The undo function of a node, for one payload type.
pub(crate) struct Undo {
    pub(crate) takes: UndoTakes,
    /// True if the payload type accepts `null`, so the undo can run without a recorded payload.
    pub(crate) takes_nothing: bool,
    pub(crate) call: Box<UndoCall>,
}

impl Undo {
    pub(crate) fn new<P, F, Fut, E>(undo: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(NodeContext, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let call = move |cx, payload: &RawValue| -> BoxFuture<'static, Result<(), BoxError>> {
            match serde_json::from_str::<P>(payload.get()) {
                Ok(payload) => Box::pin(ErrInto { future: undo(cx, payload) }),
                Err(_) if payload.get() == RawValue::NULL.get() => {
                    let reason = "the node had effects and recorded no undo payload; call `record_undo` before its effects";
                    Box::pin(async move { Err(reason.into()) })
                }
                Err(error) => {
                    Box::pin(async move { Err(format!("the recorded undo payload cannot be decoded: {error}").into()) })
                }
            }
        };
        let takes_nothing = serde_json::from_str::<P>(RawValue::NULL.get()).is_ok();
        let read = |json: &RawValue| serde_json::from_str::<P>(json.get()).map(|payload| Box::new(payload) as Box<dyn Any>);
        let takes = UndoTakes { type_id: TypeId::of::<P>(), name: type_name::<P>(), read };
        Self { takes, takes_nothing, call: Box::new(call) }
    }
}
