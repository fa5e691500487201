//! [`Viewer`]: answers every view, for single requests, streams and downloads alike.

use crate::failure::Failure;
use crate::redact::Redaction;
use crate::source::Answer;
use crate::sources::Sources;
use crate::stream::Look;
use crate::view::View;
use serde_json::Value;

/// Answers every view. Everything that it returns is redacted.
pub(crate) struct Viewer {
    pub(crate) sources: Sources,
    pub(crate) redaction: Redaction,
}

impl Viewer {
    async fn answer(&self, view: &View) -> Result<Value, Failure> {
        let seen = self.sources.view(view).await;
        seen.map(|value| self.redaction.view(view, value)).map_err(|failure| self.redaction.failure(failure))
    }
}

impl Look for Viewer {
    fn look<'a>(&'a self, view: &'a View) -> Answer<'a, Value> {
        Box::pin(self.answer(view))
    }
}
