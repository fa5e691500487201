//! [`NamedStore`]: an open store, and the text by which commands name it.

#[cfg(feature = "postgres")]
use pleach::store::PostgresStore;
use pleach::store::{MemoryStore, SqliteStore, Store, StoreError, Timestamp};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// An open store, with the argument STORE by which the `pleach` command opens the same store.
#[derive(Clone)]
pub struct NamedStore {
    name: Arc<str>,
    has_target: bool,
    store: Arc<dyn Store>,
    kind: Kind,
}

/// The kind of a store, for the calls that only one kind has.
#[derive(Clone)]
enum Kind {
    Memory,
    Sqlite(SqliteStore),
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
    Other,
}

impl NamedStore {
    /// Names a store. The kind of the store is found by its type.
    ///
    /// `name` is a file or a URL without a password, as commands take it.
    pub fn new<S: Store + Clone>(store: &S, name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), has_target: true, store: Arc::new(store.clone()), kind: Kind::of(store) }
    }

    /// Names a store of this program by its kind. Only a SQLite store has a name that commands
    /// take.
    pub fn of<S: Store + Clone>(store: &S) -> Self {
        let kind = Kind::of(store);
        let name: Arc<str> = match &kind {
            Kind::Sqlite(store) => store.path().display().to_string().into(),
            _ => "STORE".into(),
        };
        Self { name, has_target: matches!(kind, Kind::Sqlite(_)), store: Arc::new(store.clone()), kind }
    }

    /// Returns the argument STORE if commands can open this store.
    pub fn target(&self) -> Option<&str> {
        self.has_target.then_some(&*self.name)
    }

    /// Returns the argument STORE of commands; `STORE` if none is known.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the store itself.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns `memory`, `sqlite`, `postgres` or `other`.
    pub fn kind(&self) -> &'static str {
        match &self.kind {
            Kind::Memory => "memory",
            Kind::Sqlite(_) => "sqlite",
            #[cfg(feature = "postgres")]
            Kind::Postgres(_) => "postgres",
            Kind::Other => "other",
        }
    }

    /// Returns whether the process that holds the lease of a run still has the store open. `None`
    /// if the run has no lease, or if that cannot be known.
    ///
    /// # Errors
    /// The store failed.
    pub async fn is_holder_alive(&self, run: &str) -> Result<Option<bool>, StoreError> {
        match &self.kind {
            Kind::Sqlite(store) => store.is_holder_alive(run).await,
            _ => Ok(None),
        }
    }

    /// Returns by how many milliseconds the clock of the store is ahead of the clock of this
    /// machine. 0 for a store that uses the clock of this machine, and for one of another kind.
    ///
    /// # Errors
    /// The store failed.
    pub async fn clock_ahead(&self) -> Result<i64, StoreError> {
        match &self.kind {
            #[cfg(feature = "postgres")]
            Kind::Postgres(store) => Ok(store.diagnose().await?.clock_ahead),
            _ => Ok(0),
        }
    }

    /// Returns the time by the clock of the store.
    pub async fn now(&self) -> Timestamp {
        let ahead = self.clock_ahead().await.unwrap_or(0);
        Timestamp::from_millis(Timestamp::from(SystemTime::now()).as_millis().saturating_add(ahead))
    }
}

impl<S: Store + Clone> From<&S> for NamedStore {
    /// Names a store of this program, as [`NamedStore::of`] does.
    fn from(store: &S) -> Self {
        Self::of(store)
    }
}

impl Kind {
    fn of(store: &dyn Any) -> Self {
        if store.is::<MemoryStore>() {
            return Self::Memory;
        }
        if let Some(store) = store.downcast_ref::<SqliteStore>() {
            return Self::Sqlite(store.clone());
        }
        #[cfg(feature = "postgres")]
        if let Some(store) = store.downcast_ref::<PostgresStore>() {
            return Self::Postgres(store.clone());
        }
        Self::Other
    }
}

impl fmt::Debug for NamedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedStore").field("name", &self.name).field("kind", &self.kind()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_of_a_store_is_found_by_its_type() {
        let store = MemoryStore::new();
        assert_eq!(NamedStore::new(&store, "memory").kind(), "memory");
        let hidden: Arc<dyn Store> = Arc::new(store);
        assert_eq!(NamedStore::new(&hidden, "hidden").kind(), "other");
    }
}
