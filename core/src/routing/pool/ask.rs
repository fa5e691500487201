//! Asks one worker of a pool.
//!
//! It works like an ask to one actor: it waits for room, records a wait-for edge, and never hangs
//! after the worker has ended.

use crate::actor::ask::AskEdge;
use crate::actor::recipient::ask::AskTarget;
use crate::base::runtime::BoxFuture;
use crate::routing::pool::Pool;
use crate::tree::node::Node;
use crate::tree::waits::ask_error::AskError;
use alloc::boxed::Box;

impl<M: Send + 'static> AskTarget<M> for Pool<M> {
    fn node(&self) -> &Node {
        self.state.any.member.node()
    }

    fn deliver(&self, question: M, mut edge: AskEdge) -> BoxFuture<'_, Result<AskEdge, AskError>> {
        Box::pin(async move {
            let mut message = question;
            while let Some(worker) = self.choose(&message) {
                edge.point_to(&worker.any().member).await?;
                match worker.send(message).for_ask().await {
                    Ok(()) => return Ok(edge),
                    Err(error) => message = error.into_message(),
                }
                self.remove_ended(&worker);
            }
            Err(self.any().exit().map_or(AskError::Closed, AskError::from))
        })
    }
}
