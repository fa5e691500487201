//! [`Viewer`]: answers every view, for single requests, streams and downloads alike.

use crate::durable::test;
use crate::failure::Failure;
use crate::orders::Orders;
use crate::redact::Redaction;
use crate::source::Answer;
use crate::sources::Sources;
use crate::stream::Look;
use crate::view::View;
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers every view. Everything that it returns is redacted.
pub(crate) struct Viewer {
    pub(crate) sources: Sources,
    pub(crate) redaction: Arc<Redaction>,
    pub(crate) orders: Arc<Orders>,
}

impl Viewer {
    async fn answer(&self, view: &View) -> Result<Value, Failure> {
        let seen = match view {
            View::Actions(page) => view.check().map(|()| json!({ "entries": self.orders.log.page(page.before, page.limit) })),
            View::Bulk(at) => self.orders.bulks.view(&at.bulk),
            _ => self.sources.view(view).await,
        };
        self.redaction.guarded(|rules| match seen {
            Ok(value) => Ok(finished(view, rules.view(view, value))),
            Err(failure) => Err(rules.failure(failure)),
        })
    }
}

/// Completes an answer whose parts were redacted one by one.
fn finished(view: &View, mut answer: Value) -> Value {
    if let View::Test(_) = view {
        test::fill(&mut answer);
    }
    answer
}

impl Look for Viewer {
    fn look<'a>(&'a self, view: &'a View) -> Answer<'a, Value> {
        Box::pin(self.answer(view))
    }
}
