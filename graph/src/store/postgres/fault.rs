//! Failures of a call: the server's report, the advice for the user, and whether anything can have
//! changed.

use super::target::Target;
use crate::store::error::StoreError;
use deadpool_postgres::{PoolError, TimeoutType};
use std::error::Error;
use std::io;
use std::time::Duration;
use tokio_postgres::error::{DbError, SqlState};

/// The number of attempts of an operation that reads a run, decides and writes. An attempt fails if
/// another writer changes the run in between.
pub(super) const TRIES_MAX: usize = 100;

/// The reason why a call has no result.
pub(super) enum Failure {
    /// A rejection by the store.
    Rejected(StoreError),
    /// An error of the database or of the connection.
    Database(tokio_postgres::Error),
    /// The server gave no answer within this time.
    Unanswered(Duration),
    /// Other writers changed the run during each of [`TRIES_MAX`] attempts.
    Contended,
}

/// The failure of a statement for several runs.
pub(super) enum BatchFailure {
    /// The connection was lost, so the statement may have succeeded.
    Lost,
    /// Nothing was done, and each call may succeed alone.
    Undone,
    /// Each call fails with this.
    Of(Failure),
}

impl From<StoreError> for Failure {
    fn from(rejected: StoreError) -> Self {
        Self::Rejected(rejected)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl Failure {
    /// Returns whether the call can be made once more on another connection. `is_repeatable` means
    /// that a second execution changes nothing.
    pub(super) fn may_be_repeated(&self, is_repeatable: bool) -> bool {
        let Self::Database(error) = self else { return false };
        // The server rolled back, or did not start.
        const NOTHING_DONE: [SqlState; 3] =
            [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
        match error.code() {
            Some(code) if NOTHING_DONE.contains(code) => true,
            Some(code) => is_repeatable && is_shutdown(code),
            None => is_repeatable && error.is_closed(),
        }
    }

    /// Returns what the failure of a statement for several runs means for each of them.
    pub(super) fn of_batch(self) -> BatchFailure {
        match &self {
            // The wait for the lock of a table is over. Waiting again alone would take as long.
            Self::Database(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => BatchFailure::Of(self),
            Self::Database(error) if error.code().is_none_or(is_shutdown) => BatchFailure::Lost,
            // The server rolled back. One run can be the reason, for example a stray row.
            Self::Database(_) => BatchFailure::Undone,
            Self::Rejected(_) | Self::Unanswered(_) | Self::Contended => BatchFailure::Of(self),
        }
    }

    /// Returns whether the connection must not be reused: it may be broken, or its server accepts
    /// no writes.
    pub(super) fn breaks_connection(&self) -> bool {
        match self {
            Self::Rejected(_) | Self::Contended => false,
            Self::Unanswered(_) => true,
            Self::Database(error) => {
                error.code().is_none_or(|code| is_shutdown(code) || *code == SqlState::READ_ONLY_SQL_TRANSACTION)
            }
        }
    }

    /// Returns whether the idle connections of the pool are probably broken too: the network lost
    /// them all, or they lead to the same read-only server.
    pub(super) fn breaks_pool(&self) -> bool {
        match self {
            Self::Unanswered(_) => true,
            Self::Database(error) => error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION),
            Self::Rejected(_) | Self::Contended => false,
        }
    }

    /// Converts the failure of a call that reads or claims one run. Corrupt data is damage to that
    /// run, and other runs can be intact.
    ///
    /// Not for calls that write more: they can find a corrupt index, which all runs share.
    pub(super) fn in_run(self, run: &str) -> Self {
        match self {
            Self::Database(error) if error.code().is_some_and(is_corruption) => {
                tracing::error!(
                    run,
                    error = %causes(&error),
                    "PostgreSQL cannot read the run: its tables are corrupt there; restore them from a backup"
                );
                let reason = "PostgreSQL reports corrupt data (its log has the details)";
                StoreError::Damaged { run: run.to_string(), sequence: 0, reason }.into()
            }
            other => other,
        }
    }

    /// Converts a failure that happened while a connection was prepared. The call itself was not
    /// sent.
    pub(super) fn before_call(self, target: &Target) -> StoreError {
        match self.into_store_error(target) {
            StoreError::Unavailable(source) => StoreError::Unreachable(source),
            error => error,
        }
    }

    /// Converts a failure of a call on a working connection.
    pub(super) fn into_store_error(self, target: &Target) -> StoreError {
        match self {
            Self::Rejected(rejected) => rejected,
            Self::Unanswered(time) => {
                StoreError::unavailable(format!("{target} gave no answer within {time:?}; its connection was dropped"))
            }
            Self::Contended => StoreError::unreachable(format!(
                "other clients changed the run during each of {TRIES_MAX} attempts; nothing was written, try again"
            )),
            Self::Database(error) => of_statement(&error, target),
        }
    }
}

fn is_shutdown(code: &SqlState) -> bool {
    [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW].contains(code)
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
}

/// Returns whether pages of a table or an index are damaged.
fn is_corruption(code: &SqlState) -> bool {
    [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code)
}

/// Converts an error of a statement.
fn of_statement(error: &tokio_postgres::Error, target: &Target) -> StoreError {
    let Some(report) = error.as_db_error() else {
        return StoreError::unavailable(format!("the connection to {target} failed: {}", causes(error)));
    };
    let text = describe(report, target);
    match report.code() {
        code if is_setup(code) => StoreError::Unusable { store: target.to_string(), reason: text },
        &SqlState::READ_ONLY_SQL_TRANSACTION
        | &SqlState::LOCK_NOT_AVAILABLE
        | &SqlState::T_R_DEADLOCK_DETECTED
        | &SqlState::T_R_SERIALIZATION_FAILURE => StoreError::unreachable(text),
        _ => StoreError::unavailable(text),
    }
}

/// Converts an error of connecting. Nothing was sent.
pub(super) fn of_connecting(error: &tokio_postgres::Error, target: &Target) -> StoreError {
    let unusable = |reason| StoreError::Unusable { store: target.to_string(), reason };
    match error.as_db_error() {
        Some(report) if is_setup(report.code()) => unusable(describe(report, target)),
        Some(report) => StoreError::unreachable(describe(report, target)),
        None if is_cut_off(error) => StoreError::unreachable(format!(
            "the connection to {target} ended during the TLS handshake ({}); the server may be restarting, try again soon",
            causes(error)
        )),
        None if is_tls(error) => unusable(format!(
            "TLS failed ({}); check that the server offers TLS, that its certificate is for this host, and that its authority is \
             among the given roots",
            causes(error)
        )),
        None if is_login(error) => unusable(format!(
            "the login failed ({}); check the user name and the password in the connection URL",
            causes(error)
        )),
        None => StoreError::unreachable(format!(
            "no connection to {target} ({}); check host and port, and that the server runs and can be reached from this machine",
            causes(error)
        )),
    }
}

/// Converts an error of the pool. Nothing was sent.
pub(super) fn of_pool(error: PoolError, target: &Target, size: usize) -> StoreError {
    match error {
        PoolError::Backend(error) => of_connecting(&error, target),
        PoolError::Timeout(TimeoutType::Wait) => StoreError::unreachable(format!(
            "all {size} connections to {target} are in use, and none became free in time; raise the pool size, or look for slow calls"
        )),
        PoolError::Timeout(_) => StoreError::unreachable(format!(
            "connecting to {target} took too long; check host and port, and that the server can be reached from this machine"
        )),
        other => {
            StoreError::Unusable { store: target.to_string(), reason: format!("the pool returned no connection: {other}") }
        }
    }
}

fn is_tls(error: &tokio_postgres::Error) -> bool {
    error.to_string().contains("TLS")
}

/// Returns whether the connection ended during the TLS handshake. A certificate error of rustls is
/// an I/O error too, with the kind invalid data.
fn is_cut_off(error: &tokio_postgres::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    is_tls(error)
        && cause.is_some_and(|cause| !matches!(cause.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput))
}

/// Returns whether the error needs a change of the setup. Waiting does not help.
fn is_setup(code: &SqlState) -> bool {
    // Classes: 28 login, 3D database, 3F schema, 42 privileges and missing tables.
    ["28", "3D", "3F", "42"].iter().any(|class| code.code().starts_with(class))
}

/// Returns whether tokio-postgres itself found the error during the login.
fn is_login(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.contains("authentication") || text.contains("invalid configuration")
}

/// Describes the server's report with its code, and adds advice.
fn describe(report: &DbError, target: &Target) -> String {
    let (what, advice) = match *report.code() {
        SqlState::INVALID_PASSWORD => {
            (format!("PostgreSQL rejected the login{target:#}"), "check the user name and the password in the connection URL")
        }
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION if wants_tls(report) => (
            format!("PostgreSQL rejected the login{target:#}"),
            "allow the role from this machine in pg_hba.conf; if the server accepts only TLS connections, add `sslmode=require` to the \
             URL, which needs the feature `postgres-tls`",
        ),
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION => (
            format!("PostgreSQL rejected the login{target:#}"),
            "check that the role exists and may log in, and that pg_hba.conf allows it from this machine",
        ),
        SqlState::INVALID_CATALOG_NAME => {
            ("the database does not exist".into(), "create it, or correct its name in the connection URL")
        }
        SqlState::INSUFFICIENT_PRIVILEGE => (
            format!("PostgreSQL rejected the statement{target:#}"),
            "grant the role SELECT, INSERT, UPDATE and DELETE on the tables pleach_*, and CREATE on their schema to create or migrate them",
        ),
        SqlState::READ_ONLY_SQL_TRANSACTION => (
            format!("{target} accepts no writes"),
            "it is a standby or read-only: connect to the primary, for example with several hosts and \
             `target_session_attrs=read-write` in the URL",
        ),
        SqlState::TOO_MANY_CONNECTIONS => {
            (format!("{target} has no free connection"), "lower the pool size of its clients, or raise max_connections")
        }
        SqlState::CANNOT_CONNECT_NOW => (format!("{target} is starting or stopping"), "try again soon"),
        SqlState::LOCK_NOT_AVAILABLE => (
            "another client keeps a row or table locked".into(),
            "nothing was changed; find the client with pg_stat_activity and pg_locks, and try again after it has ended",
        ),
        SqlState::DISK_FULL => (format!("{target} has no disk space left"), "free or add disk space"),
        _ => (format!("{target} failed"), report.hint().unwrap_or("")),
    };
    let text = format!("{what} ({}: {})", report.code().code(), report.message());
    if advice.is_empty() { text } else { format!("{text}; {advice}") }
}

/// Returns whether the server may have rejected the login because the connection is not encrypted.
/// Only the message shows this.
fn wants_tls(report: &DbError) -> bool {
    ["no encryption", "SSL off"].iter().any(|words| report.message().contains(words))
}

/// Formats an error with its causes, the innermost last, each once.
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
