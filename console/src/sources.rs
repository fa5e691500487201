//! [`Sources`]: the processes and stores of a console, found by key.
//!
//! A source runs in a task of its own while it is asked, so a panic in one becomes a failure of
//! that request. Dropping a request drops the work for it.

use crate::failure::Failure;
use crate::home;
use crate::source::Source;
use crate::tree_runs;
use crate::view::View;
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The processes and stores of a console.
#[derive(Clone, Default)]
pub(crate) struct Sources {
    pub(crate) processes: Vec<Arc<dyn Source>>,
    pub(crate) stores: Vec<Arc<dyn Source>>,
}

impl Sources {
    /// Returns all sources, processes first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Source>> {
        self.processes.iter().chain(&self.stores)
    }

    /// Returns the source with this key.
    pub(crate) fn find(&self, key: &str) -> Result<&Arc<dyn Source>, Failure> {
        self.all().find(|source| source.key() == key).ok_or_else(|| {
            let keys: Vec<&str> = self.all().map(|source| source.key()).collect();
            Failure::new("not_found", format_args!("this console has no source {key:?}; its sources are {}", keys.join(", ")))
        })
    }

    /// Answers a view of a source, or the view of all sources.
    pub(crate) async fn view(&self, view: &View) -> Result<Value, Failure> {
        view.check()?;
        let Some(key) = view.source() else {
            return match view {
                View::Home(_) => home::look(self).await,
                _ => Err(Failure::new("not_possible", "this view needs a store, or a process")),
            };
        };
        let (source, view) = (Arc::clone(self.find(key)?), view.clone());
        let has_members = matches!(view, View::Tree(_) | View::Top(_) | View::NotWell(_) | View::Member(_));
        let mut answer = alone(async move { source.view(&view).await }).await?;
        if has_members {
            tree_runs::link(&self.stores, &mut answer).await;
        }
        Ok(answer)
    }

    /// Returns what is known about each source, without asking it.
    pub(crate) fn describe(&self) -> Value {
        let describe = |sources: &[Arc<dyn Source>]| sources.iter().map(|source| source.describe()).collect::<Vec<_>>();
        json!({ "processes": describe(&self.processes), "stores": describe(&self.stores) })
    }
}

/// Awaits `work` in a task of its own. A panic becomes a failure. Dropping this drops `work`.
pub(crate) async fn alone<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let mut task = AbortOnDrop(tokio::spawn(work));
    (&mut task.0).await.unwrap_or_else(|error| {
        let text = match error.try_into_panic() {
            Ok(panic) => {
                let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without text".to_string())
            }
            Err(error) => error.to_string(),
        };
        // The panic itself may contain data of the program, which the log does not show.
        tracing::error!(target: "pleach::console", "the console panicked while it answered; please report it");
        Err(Failure::new("internal", format_args!("the console failed: {text}")).advice("please report it"))
    })
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
