//! [`Viewer`]: answers every view, for single requests, streams and downloads alike.

use crate::failure::Failure;
use crate::source::Answer;
use crate::sources::Sources;
use crate::stream::Look;
use crate::view::View;
use serde_json::Value;

/// Answers every view.
pub(crate) struct Viewer {
    pub(crate) sources: Sources,
}

impl Viewer {
    async fn answer(&self, view: &View) -> Result<Value, Failure> {
        self.sources.view(view).await
    }
}

impl Look for Viewer {
    fn look<'a>(&'a self, view: &'a View) -> Answer<'a, Value> {
        Box::pin(self.answer(view))
    }
}
