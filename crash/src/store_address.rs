//! [`StoreAddress`]: where runs are stored.

use pleach::store::{PostgresStore, SqliteStore, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreAddress {
    Sqlite(PathBuf),
    Postgres(String),
}

impl StoreAddress {
    pub async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match self {
            Self::Sqlite(path) => Arc::new(SqliteStore::open(path).await?),
            Self::Postgres(url) => Arc::new(PostgresStore::connect(url).await?),
        })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }
}
