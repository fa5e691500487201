//! The statements, one file each in `sql/`.
//!
//! A file names its parameters in braces. Names in common to several files stand for SQL text; all others are numbered by the list given
//! here, which is also the order in which the caller passes the values. Every parameter is cast, so that its type is never guessed.

use super::schema::FORMAT;
use std::sync::LazyLock;

/// A statement and the names of its parameters, in order.
pub(super) type Statement = LazyLock<String>;

/// The columns of a run's row that `run_row` reads.
const COLUMNS: &str = "no, id, graph, fingerprint, schema, instance, status, epoch, head, oldest, owner, lease_until, wake_at, takeovers, \
     trouble, deadline, posted, from_run, from_seq, created, changed, sum";

/// The database's clock when the statement began, in milliseconds.
const NOW: &str = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint";

/// True if the tables have the format of this version. Else it fails with a text that [`later_format`] reads: the tables were upgraded by a later version
/// since this store was opened. Every statement has it, and the server evaluates it once, before anything else.
const KNOWN_FORMAT: &str = "(SELECT CASE WHEN COALESCE(max(format), 0) = {format} THEN true
        ELSE ('pleach_format ' || COALESCE(max(format), 0))::bool END FROM pleach_format)";

/// The format that the tables have, if a statement failed for this reason.
pub(super) fn later_format(message: &str) -> Option<i64> {
    message.split_once("\"pleach_format ")?.1.split_once('"')?.0.parse().ok()
}

/// Makes the commit of this statement durable, whatever the session's setting. A pool of the caller may reset what `session` has set.
const DURABLE: &str =
    "CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END";

/// The status of a run after a commit.
const NEW_STATUS: &str = "COALESCE({status}::text, status)";

/// The wake-up time of a run after a commit: see `RunInfo::settle`.
const NEW_WAKE_AT: &str = "CASE WHEN {new_status} NOT IN ('running', 'waiting') THEN NULL
            WHEN posted > {seen}::bigint OR {wake}::text = 'now' THEN {now}
            WHEN {wake}::text = 'at' THEN {wake_at}::bigint
            WHEN {wake}::text = 'post' THEN NULL
            ELSE wake_at END";

/// The deadline of a run after a commit.
const NEW_DEADLINE: &str =
    "CASE {deadline_is}::text WHEN 'at' THEN {deadline}::bigint WHEN 'never' THEN NULL ELSE deadline END";

/// The wake-up time of a run after a post: see `RunInfo::post`. `LEAST` passes over NULL.
const WAKE_AT_AFTER_POST: &str = "CASE WHEN status IN ('running', 'waiting') THEN LEAST(wake_at, {now}) ELSE wake_at END";

/// The wake-up time of a run that was given up: see `RunInfo::give_up`.
const WAKE_AT_AFTER_RELEASE: &str =
    "CASE free.next WHEN 'same' THEN r.wake_at WHEN 'rest' THEN {now} + {rest}::bigint ELSE NULL END";

/// Whether a run's end can be true: see `retention`, also for the minute. A damaged time does not overflow.
const TRUE_END: &str = "ended_at >= GREATEST(created, 0) - 60000 AND status NOT IN ('running', 'waiting', 'stuck')";

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $file:literal [$($from:literal = $to:expr),*] ($($parameter:ident),*);)*) => {
        $($(#[$doc])*
        pub(super) static $name: Statement = LazyLock::new(|| {
            text(include_str!(concat!("sql/", $file, ".sql")), &[$(($from, $to)),*], &[$(stringify!($parameter)),*])
        });)*

        #[cfg(test)]
        const ALL: &[(&str, &Statement)] = &[$((stringify!($name), &$name)),*];
    };
}

statements! {
    SESSION = "session" [] (lock_timeout, idle_timeout, is_own_pool);
    RUN = "run" [] (run);
    LIST = "list" ["place" = "no <= {last_key}::bigint", "order" = "no DESC"]
        (last_key, created_since, created_before, changed_since, changed_before, count);
    LIST_STATUS = "list" [
        "place" = "status >= {status}::text AND (status, no) <= ({status}::text, {last_key}::bigint)",
        "order" = "status DESC, no DESC"]
        (last_key, created_since, created_before, changed_since, changed_before, count, status);
    LIST_GRAPH = "list" [
        "place" = "graph >= {graph}::text AND (graph, no) <= ({graph}::text, {last_key}::bigint)",
        "order" = "graph DESC, no DESC"]
        (last_key, created_since, created_before, changed_since, changed_before, count, graph);
    LIST_BOTH = "list" [
        "place" = "graph = {graph}::text AND status >= {status}::text AND (status, no) <= ({status}::text, {last_key}::bigint)",
        "order" = "status DESC, no DESC"]
        (last_key, created_since, created_before, changed_since, changed_before, count, status, graph);
    ROWS = "rows" [] (run, sequences, whole, bytes_max);
    INBOX = "inbox" [] (run, after, count, bytes_max);
    CREATE = "create" []
        (run, graph, fingerprint, schema, instance, status, head, owner, lease, is_due, wake_at, deadline, from_run, from_seq, sum,
         sequences, sums, headers, bodies);
    COMMIT = "commit" ["new_wake_at" = NEW_WAKE_AT, "new_status" = NEW_STATUS, "new_deadline" = NEW_DEADLINE]
        (run, instance, epoch, head, new_head, status, seen, wake, wake_at, deadline_is, deadline, release, fingerprint, schema,
         version_sum, takes, notifies, sequences, sums, headers, bodies);
    HAS_LANDED = "has_landed" [] (run, instance, epoch, head, header);
    CLAIM = "claim" []
        (no, status, epoch, owner, lease, wake_at, takeovers, was_status, was_epoch, was_owner, was_lease_until, was_wake_at,
         was_takeovers);
    CLAIM_READY = "claim_ready" [] (graphs, fingerprints, schemas, owner, lease, count, takeovers_max);
    DISOWN = "disown" [] (keys, owner);
    RENEW = "renew" [] (runs, instances, epochs, lease);
    /// Renews one, and waits for its row.
    RENEW_ONE = "renew_one" [] (run, instance, epoch, lease, patience);
    /// Gives up those that nobody has locked.
    RELEASE = "release" ["skip" = "SKIP LOCKED", "next_wake_at" = WAKE_AT_AFTER_RELEASE]
        (runs, instances, epochs, troubled, reason, rest, takeovers_max);
    /// Gives up one, and waits for its row.
    RELEASE_ONE = "release" ["skip" = "", "next_wake_at" = WAKE_AT_AFTER_RELEASE]
        (runs, instances, epochs, troubled, reason, rest, takeovers_max);
    BEFORE_POST = "before_post" [] (run, dedup, is_command, is_answer);
    POST = "post" ["new_wake_at" = WAKE_AT_AFTER_POST] (no, posted, room, replaces, name, dedup, sum, payload);
    PRUNE_ROWS = "prune_rows" [] (run, instance, epoch, before, keep);
    ENDS_AROUND = "ends_around" ["true_end" = TRUE_END] (unchanged_for, earliest);
    PRUNE_ENDED = "prune_ended" ["true_end" = TRUE_END] (before, count, earliest);
    UNTRUE_ENDS = "untrue_ends" ["true_end" = TRUE_END] (before, earliest);
    DELETE = "delete" [] (run);
    HOLDER = "holder" [] (run);
    ALL_RUNS = "all_runs" [] ();
    SEAL_RUN = "seal_run" [] (sum, no);
}

/// The tables, without the indexes of [`INDEXES_3`].
pub(super) const TABLES: &str = include_str!("sql/tables.sql");
/// Indexes that came with format 3.
pub(super) const INDEXES_3: &str = include_str!("sql/indexes_3.sql");
/// From format 1 to 2, except for the checksums themselves.
pub(super) const UPGRADE_2: &str = include_str!("sql/upgrade_2.sql");
/// From format 2 to 3, without the indexes.
pub(super) const UPGRADE_3: &str = include_str!("sql/upgrade_3.sql");

fn text(file: &str, own: &[(&str, &str)], parameters: &[&str]) -> String {
    let format = FORMAT.to_string();
    let common =
        [("known_format", KNOWN_FORMAT), ("format", &format), ("columns", COLUMNS), ("durable", DURABLE), ("now", NOW)];
    // What explains a statement need not be sent to the server.
    let mut text: String = file.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n");
    for (name, sql) in own.iter().chain(&common) {
        text = text.replace(&format!("{{{name}}}"), sql);
    }
    for (number, name) in parameters.iter().enumerate() {
        text = text.replace(&format!("{{{name}}}"), &format!("${}", number + 1));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c11_every_name_in_a_statement_stands_for_something() {
        for (name, statement) in ALL {
            assert!(!statement.contains('{'), "{name}: {}", statement.as_str());
        }
    }

    #[test]
    fn c7_every_statement_checks_the_format_of_the_tables() {
        // Those that a call begins with, except for the upgrade itself. What follows in the same call needs no further look.
        for (name, statement) in ALL {
            let is_free = ["SESSION", "HAS_LANDED", "DISOWN", "ALL_RUNS", "SEAL_RUN"].contains(name);
            assert_eq!(statement.contains("FROM pleach_format"), !is_free, "{name}");
        }
        assert_eq!(later_format("invalid input syntax for type boolean: \"pleach_format 12\""), Some(12));
        assert_eq!(later_format("invalid input syntax for type boolean: \"maybe\""), None);
    }

    #[test]
    fn c13_only_short_locks_are_taken() {
        for (name, statement) in ALL {
            let waits = statement.contains(" UPDATE OF r") || statement.contains("FOR UPDATE");
            assert!(!waits || statement.contains("SKIP LOCKED") || *name == "RELEASE_ONE", "{name} may wait with locks held");
        }
    }
}
