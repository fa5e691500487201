//! Opens the store that a command names.

use crate::failure::{Failure, Status};
use crate::output::escape::OneLine;
#[cfg(feature = "postgres")]
use pleach::store::PostgresStore;
use pleach::store::{SqliteStore, Store, StoreError};
use pleach_console::report::NamedStore;
use std::path::PathBuf;
use std::sync::Arc;

/// An open store of any kind.
pub type OpenStore = Arc<dyn Store>;

/// An open store whose kind is known.
pub enum StoreKind {
    Sqlite(SqliteStore),
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
}

impl StoreKind {
    /// Returns the store for calls that every kind has.
    pub fn store(&self) -> OpenStore {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }
}

/// Where a store is: `sqlite:FILE`, a bare path, `postgres://…`, or `env:NAME` for an environment
/// variable that contains one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Sqlite(PathBuf),
    Postgres(String),
}

/// What a word does with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

impl Target {
    /// Parses the argument STORE. A URL of another kind is rejected, so that a typing error does
    /// not become a file name.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix("env:") {
            Some(name) => {
                let value = std::env::var(name).map_err(|_| format!("the environment variable {name:?} is not set"))?;
                Self::parse_place(&value).map_err(|error| format!("the environment variable {name:?}: {error}"))
            }
            None => Self::parse_place(text),
        }
    }

    fn parse_place(text: &str) -> Result<Self, String> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_string()));
        }
        let path = text.strip_prefix("sqlite:").unwrap_or(text);
        if path.is_empty() {
            return Err("the name of the file is missing".into());
        }
        match text.split_once("://") {
            Some((scheme, _)) if !text.starts_with("sqlite:") => {
                Err(format!("unknown kind of store {scheme:?}; write a file, sqlite:FILE or postgres://USER@HOST/DATABASE"))
            }
            _ => Ok(Self::Sqlite(path.into())),
        }
    }

    /// Returns the store as text, without its password.
    pub fn name(&self) -> String {
        match self {
            Self::Sqlite(path) => path.display().to_string(),
            Self::Postgres(url) => without_password(url),
        }
    }

    /// Opens the store. A command never creates or migrates one.
    pub async fn open(&self, access: Access) -> Result<OpenStore, Failure> {
        Ok(self.open_kind(access).await?.store())
    }

    /// Opens the store for reports, which name it in the commands that they advise.
    pub async fn open_named(&self, access: Access) -> Result<NamedStore, Failure> {
        Ok(match self.open_kind(access).await? {
            StoreKind::Sqlite(store) => NamedStore::new(&store, self.name()),
            #[cfg(feature = "postgres")]
            StoreKind::Postgres(store) => NamedStore::new(&store, self.name()),
        })
    }

    /// Opens the store for calls that only one kind has.
    pub async fn open_kind(&self, access: Access) -> Result<StoreKind, Failure> {
        match self {
            Self::Sqlite(path) => {
                if matches!(path.try_exists(), Ok(false)) {
                    let text = format!("there is no file {}", OneLine(&self.name()));
                    return Err(Failure::new(Status::NotFound, text).advice("name the SQLite file of a pleach store"));
                }
                let store = match access {
                    Access::Read => SqliteStore::open_read_only(path).await,
                    Access::Write => SqliteStore::open_existing(path).await,
                };
                store.map(StoreKind::Sqlite).map_err(|error| self.unreachable(error))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => {
                let store = PostgresStore::builder(url).pool_size(2).migrate(false).connect().await;
                store.map(StoreKind::Postgres).map_err(|error| self.unreachable(error))
            }
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => {
                let text = "this command was built without PostgreSQL";
                Err(Failure::new(Status::Unreachable, text).advice("build it with the feature `postgres`"))
            }
        }
    }

    /// A store that cannot be opened has one exit code, whatever the reason.
    fn unreachable(&self, error: StoreError) -> Failure {
        Failure::new(Status::Unreachable, format_args!("cannot open the store {}: {error}", OneLine(&self.name())))
    }
}

/// Removes the password from a URL, wherever it is.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
    // A part of the password that was not encoded may be anywhere.
    if options.contains('@') {
        return format!("{scheme}://…");
    }
    let (login, server) = place.rsplit_once('@').unwrap_or(("", place));
    let user = login.split_once(':').map_or(login, |(user, _)| user);
    let at = if login.is_empty() { "" } else { "@" };
    let kept: Vec<&str> = options.split('&').filter(|one| !one.is_empty() && !one.starts_with("password=")).collect();
    let question = if kept.is_empty() { "" } else { "?" };
    format!("{scheme}://{user}{at}{server}{question}{}", kept.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_named_by_path_or_url() {
        assert_eq!(Target::parse("runs.db"), Ok(Target::Sqlite("runs.db".into())));
        assert_eq!(Target::parse("sqlite:/a/b.db"), Ok(Target::Sqlite("/a/b.db".into())));
        assert!(matches!(Target::parse("postgres://u:p@h/d"), Ok(Target::Postgres(_))));
        assert!(Target::parse("mysql://h/d").is_err_and(|error| error.contains("mysql")));
        assert!(Target::parse("").is_err() && Target::parse("sqlite:").is_err());
        assert!(Target::parse("env:PLEACH_NO_SUCH_VARIABLE").is_err_and(|error| error.contains("not set")));
    }

    #[test]
    fn names_of_stores_have_no_password() {
        for (url, name) in [
            ("postgres://me:s3cret@h:5432/d", "postgres://me@h:5432/d"),
            ("postgres://me:s3@cret@h:5432/d?password=s3cret", "postgres://me@h:5432/d"),
            ("postgres://h/d?password=s3cret&options=-csearch_path%3Dx", "postgres://h/d?options=-csearch_path%3Dx"),
            ("postgres://me:s3?cret@h/d", "postgres://…"),
        ] {
            assert_eq!(Target::Postgres(url.into()).name(), name);
        }
    }
}
