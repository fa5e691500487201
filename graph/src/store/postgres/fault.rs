//! Why a call failed: what the server said, what to do about it, and whether anything can have been changed.

use super::target::Target;
use crate::store::error::StoreError;
use deadpool_postgres::{PoolError, TimeoutType};
use std::error::Error;
use std::io;
use std::time::Duration;
use tokio_postgres::error::{DbError, SqlState};

/// How often a decision is made again because the run has changed since it was read. Each time another writer was faster.
pub(super) const TRIES_MAX: usize = 100;

/// Why a statement gave no answer.
pub(super) enum Failure {
    /// The store's own refusal.
    Refused(StoreError),
    /// An error of the database or of the connection.
    Database(tokio_postgres::Error),
    /// There was no answer within this time.
    Unanswered(Duration),
    /// Other writers were faster, [`TRIES_MAX`] times.
    Contended,
}

impl From<StoreError> for Failure {
    fn from(refused: StoreError) -> Self {
        Self::Refused(refused)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl Failure {
    /// Whether the call can be made once more on another connection. `is_repeatable` says that its repetition changes nothing, should the first have
    /// been done after all.
    pub(super) fn may_be_repeated(&self, is_repeatable: bool) -> bool {
        let Self::Database(error) = self else { return false };
        // The server undid what it had begun, or did not begin.
        const NOTHING_DONE: [SqlState; 3] =
            [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
        match error.code() {
            Some(code) if NOTHING_DONE.contains(code) => true,
            Some(code) => is_repeatable && is_shutdown(code),
            None => is_repeatable && error.is_closed(),
        }
    }

    /// Whether the connection must not be used again: it may be broken, or lead to a server that takes no writes.
    pub(super) fn spoils_connection(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Contended => false,
            Self::Unanswered(_) => true,
            Self::Database(error) => {
                error.code().is_none_or(|code| is_shutdown(code) || *code == SqlState::READ_ONLY_SQL_TRANSACTION)
            }
        }
    }

    /// Whether the idle connections of the pool are probably no better: what swallowed one has swallowed all, or they lead to the same server, which
    /// takes no writes.
    pub(super) fn spoils_pool(&self) -> bool {
        match self {
            Self::Unanswered(_) => true,
            Self::Database(error) => error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION),
            Self::Refused(_) | Self::Contended => false,
        }
    }

    /// The failure of a call that reads or claims one run. What the server finds corrupt meanwhile is damage to that run: others may be sound. Calls that
    /// write more are not for this: what they find corrupt may be an index that all runs share.
    pub(super) fn in_run(self, run: &str) -> Self {
        match self {
            Self::Database(error) if error.code().is_some_and(is_corruption) => {
                tracing::error!(run, error = %causes(&error), "PostgreSQL cannot read the run: its tables are corrupt there");
                let why = "PostgreSQL reports corrupt data (its log has the details)";
                StoreError::Damaged { run: run.to_string(), sequence: 0, why }.into()
            }
            other => other,
        }
    }

    /// The failure of preparing a connection: the call itself was not sent.
    pub(super) fn before_call(self, target: &Target) -> StoreError {
        match self.into_store_error(target) {
            StoreError::Unavailable(source) => StoreError::Unreachable(source),
            error => error,
        }
    }

    /// The failure of a call on a connection that was there.
    pub(super) fn into_store_error(self, target: &Target) -> StoreError {
        match self {
            Self::Refused(refused) => refused,
            Self::Unanswered(time) => {
                StoreError::unavailable(format!("{target} gave no answer within {time:?}; the connection was dropped"))
            }
            Self::Contended => StoreError::unreachable(format!(
                "the run was changed by others each of {TRIES_MAX} times that this call read it; try again"
            )),
            Self::Database(error) => of_statement(&error, target),
        }
    }
}

fn is_shutdown(code: &SqlState) -> bool {
    [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW].contains(code)
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
}

/// Whether pages of a table or of an index are damaged.
fn is_corruption(code: &SqlState) -> bool {
    [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code)
}

/// An error of a statement.
fn of_statement(error: &tokio_postgres::Error, target: &Target) -> StoreError {
    let Some(said) = error.as_db_error() else {
        return StoreError::unavailable(format!("the connection to {target} failed ({})", causes(error)));
    };
    let text = describe(said, target);
    match said.code() {
        code if is_setup(code) => StoreError::Unusable { store: target.to_string(), why: text },
        &SqlState::READ_ONLY_SQL_TRANSACTION
        | &SqlState::LOCK_NOT_AVAILABLE
        | &SqlState::T_R_DEADLOCK_DETECTED
        | &SqlState::T_R_SERIALIZATION_FAILURE => StoreError::unreachable(text),
        _ => StoreError::unavailable(text),
    }
}

/// An error of connecting: nothing was sent.
pub(super) fn of_connecting(error: &tokio_postgres::Error, target: &Target) -> StoreError {
    let unusable = |why| StoreError::Unusable { store: target.to_string(), why };
    match error.as_db_error() {
        Some(said) if is_setup(said.code()) => unusable(describe(said, target)),
        Some(said) => StoreError::unreachable(describe(said, target)),
        None if is_cut_off(error) => StoreError::unreachable(format!(
            "the connection to {target} ended while TLS began ({}); the server may be restarting: try again soon",
            causes(error)
        )),
        None if is_tls(error) => unusable(format!(
            "no TLS connection ({}); check that the server offers TLS, that its certificate is for this host, and that its \
             authority is among the roots given",
            causes(error)
        )),
        None if is_login(error) => unusable(format!(
            "the login failed ({}); check the user name and the password in the connection URL",
            causes(error)
        )),
        None => StoreError::unreachable(format!(
            "no connection to {target} ({}); check host and port, and that the server runs and can be reached from here",
            causes(error)
        )),
    }
}

/// An error of a pool: nothing was sent.
pub(super) fn of_pool(error: PoolError, target: &Target, size: usize) -> StoreError {
    match error {
        PoolError::Backend(error) => of_connecting(&error, target),
        PoolError::Timeout(TimeoutType::Wait) => StoreError::unreachable(format!(
            "all {size} connections to {target} are in use, and none came free in time; raise the pool size, or look for slow calls"
        )),
        PoolError::Timeout(_) => StoreError::unreachable(format!(
            "no connection to {target} in time; check host and port, and that the server can be reached from here"
        )),
        other => StoreError::Unusable { store: target.to_string(), why: format!("the pool gives no connection: {other}") },
    }
}

fn is_tls(error: &tokio_postgres::Error) -> bool {
    error.to_string().contains("TLS")
}

/// Whether the connection ended while TLS began. What rustls finds wrong with a certificate is an I/O error too, one of invalid data.
fn is_cut_off(error: &tokio_postgres::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    is_tls(error)
        && cause.is_some_and(|cause| !matches!(cause.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput))
}

/// What somebody has to set up: passing time mends none of it.
fn is_setup(code: &SqlState) -> bool {
    // 28: login, 3D: database, 3F: schema, 42: privileges, tables that are not there.
    ["28", "3D", "3F", "42"].iter().any(|class| code.code().starts_with(class))
}

/// Errors that tokio-postgres finds itself while it logs in.
fn is_login(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.contains("authentication") || text.contains("invalid configuration")
}

/// What the server said, with its code, and what to do.
fn describe(said: &DbError, target: &Target) -> String {
    let (what, advice) = match *said.code() {
        SqlState::INVALID_PASSWORD => {
            (format!("PostgreSQL refused the login{target:#}"), "check the user name and the password in the connection URL")
        }
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION if wants_tls(said) => (
            format!("PostgreSQL refused the login{target:#}"),
            "let the role in from here in pg_hba.conf; if the server lets only TLS connections in, put `sslmode=require` into the URL, \
             which takes the feature `postgres-tls`",
        ),
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION => (
            format!("PostgreSQL refused the login{target:#}"),
            "check that the role exists and may log in, and that pg_hba.conf lets it in from here",
        ),
        SqlState::INVALID_CATALOG_NAME => {
            ("there is no such database".into(), "create it, or correct its name in the connection URL")
        }
        SqlState::INSUFFICIENT_PRIVILEGE => (
            format!("PostgreSQL refused the statement{target:#}"),
            "grant the role SELECT, INSERT, UPDATE and DELETE on the tables pleach_*, and CREATE on their schema to make or upgrade them",
        ),
        SqlState::READ_ONLY_SQL_TRANSACTION => (
            format!("{target} takes no writes"),
            "it is a standby or is set to read-only: connect to the primary, for example with several hosts and \
             `target_session_attrs=read-write` in the URL",
        ),
        SqlState::TOO_MANY_CONNECTIONS => {
            (format!("{target} has no connection left"), "lower the pool size of its clients, or raise max_connections")
        }
        SqlState::CANNOT_CONNECT_NOW => (format!("{target} is starting or stopping"), "try again soon"),
        SqlState::LOCK_NOT_AVAILABLE => (
            "another client keeps a row or table locked".into(),
            "look for it in pg_stat_activity and pg_locks; nothing was changed, so try again when it is gone",
        ),
        SqlState::DISK_FULL => (format!("{target} has no space left"), "free or add disk space"),
        _ => (format!("{target} failed"), said.hint().unwrap_or("")),
    };
    let said = format!("{what} ({}: {})", said.code().code(), said.message());
    if advice.is_empty() { said } else { format!("{said}; {advice}") }
}

/// Whether the login may have been refused because the connection was not encrypted. Only the words of the refusal tell.
fn wants_tls(said: &DbError) -> bool {
    ["no encryption", "SSL off"].iter().any(|words| said.message().contains(words))
}

/// An error with its causes, innermost last, each once.
fn causes(error: &dyn Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}
