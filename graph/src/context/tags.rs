//! The tags of a run, as its nodes read and change them.

use crate::context::NodeContext;
use crate::store::{TagError, Tags};
use std::sync::PoisonError;

impl NodeContext {
    /// Sets a tag of the run, so that the run is found by it: `Filter::tag("stage", "paid")`.
    ///
    /// A stored run writes the change with its next commit: at the latest with the one that ends
    /// this visit. So the tag and the record of the visit survive a crash together. If the node
    /// runs again after a crash, it sets the tag again. A change of a failed attempt stays.
    ///
    /// An attempt that was abandoned changes nothing. In an in-memory run, tags are only visible in
    /// its view.
    ///
    /// # Errors
    /// [`TagError`] if the key or the value is not valid, or if the run has 16 other tags. The tags
    /// are unchanged then.
    ///
    /// # Examples
    /// ```
    /// use pleach::prelude::*;
    /// use pleach::store::Filter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pay = |cx: NodeContext, cents: u32| async move {
    ///     cx.set_tag("stage", "paid")?;
    ///     Ok::<_, pleach::BoxError>(cents)
    /// };
    /// let graph = Graph::<u32>::new("order")
    ///     .add_node("pay", pay)
    ///     .add_edge("pay", END)
    ///     .set_entry("pay")
    ///     .compile()?;
    ///
    /// let store = MemoryStore::new();
    /// graph.run(500).id("order-7").tag("customer", "42").checkpoint(&store).await?;
    /// let filters = vec![Filter::tag("customer", "42"), Filter::tag("stage", "paid")];
    /// assert_eq!(store.list(filters, None, 10).await?.runs[0].id, "order-7");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_tag(&self, key: impl Into<String>, value: impl Into<String>) -> Result<(), TagError> {
        let (key, value) = (key.into(), value.into());
        self.change_tags(|tags| tags.set(key, value))
    }

    /// Removes a tag of the run. Does nothing if the run does not have it.
    ///
    /// The change is stored as that of [`set_tag`](Self::set_tag).
    pub fn remove_tag(&self, key: &str) {
        // Removing a tag breaks no limit.
        drop(self.change_tags(|tags| Ok(tags.remove(key))));
    }

    /// Returns the current tags of the run, including changes that are not stored yet.
    pub fn tags(&self) -> Tags {
        let run = self.graph_cx.run();
        match run.log() {
            Some(log) => log.tags(),
            None => run.details().tags.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn change_tags(&self, change: impl FnOnce(&mut Tags) -> Result<bool, TagError>) -> Result<(), TagError> {
        let writer = self.writer();
        // The lock is held so that no other attempt can start meanwhile.
        let Some(_records) = writer.records.lock_for(writer.attempt) else { return Ok(()) };
        let run = self.graph_cx.run();
        match run.log() {
            Some(log) => log.change_tags(change),
            None => change(&mut run.details().tags.lock().unwrap_or_else(PoisonError::into_inner)).map(drop),
        }
    }
}
