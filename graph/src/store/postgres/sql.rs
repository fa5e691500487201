//! The SQL statements, one file each in `sql/`.
//!
//! A file names its parameters in braces. A name that several files share is replaced by SQL text.
//! All other names are numbered in the order of the list below, which is also the order of the
//! values that the caller passes. Every parameter is cast, so that the server never guesses its
//! type.

use super::schema::FORMAT;
use std::sync::LazyLock;

/// The text of a statement, built at its first use.
pub(super) type Statement = LazyLock<String>;

/// The columns of a run's row that `run_row` reads.
const COLUMNS: &str = "no, id, graph, fingerprint, schema, instance, status, epoch, head, oldest, owner, lease_until, wake_at, takeovers, \
     trouble, deadline, posted, from_run, from_seq, created, changed, tags, failure, sum";

/// The clock of the database at the start of the statement, in milliseconds.
const NOW: &str = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint";

/// Is true if the tables have the format of this version.
///
/// Otherwise the statement fails with a text that [`later_format`] parses: a later version has
/// migrated the tables since this store was opened. Every statement contains it, and the server
/// evaluates it once, before anything else.
const KNOWN_FORMAT: &str = "(SELECT CASE WHEN COALESCE(max(format), 0) = {format} THEN true
        ELSE ('pleach_format ' || COALESCE(max(format), 0))::bool END FROM pleach_format)";

/// Returns the format of the tables from the error text of [`KNOWN_FORMAT`].
pub(super) fn later_format(message: &str) -> Option<i64> {
    message.split_once("\"pleach_format ")?.1.split_once('"')?.0.parse().ok()
}

/// Makes the commit of this statement durable regardless of the session. A pool of the caller can
/// reset the settings of `session`.
const DURABLE: &str =
    "CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END";

/// The status of a run after a commit.
const NEW_STATUS: &str = "COALESCE({status}::text, status)";

/// The wake time of a run after a commit; see `RunInfo::apply_commit`.
const NEW_WAKE_AT: &str = "CASE WHEN {new_status} NOT IN ('running', 'waiting') THEN NULL
            WHEN posted > {seen}::bigint OR {wake}::text = 'now' THEN {now}
            WHEN {wake}::text = 'at' THEN {wake_at}::bigint
            WHEN {wake}::text = 'message' THEN NULL
            ELSE wake_at END";

/// The deadline of a run after a commit.
const NEW_DEADLINE: &str =
    "CASE {deadline_is}::text WHEN 'at' THEN {deadline}::bigint WHEN 'never' THEN NULL ELSE deadline END";

/// The failure of a run after a commit; see `RunInfo::apply_commit`.
const NEW_FAILURE: &str = "CASE WHEN {failure}::text IS NOT NULL THEN {failure}::text
            WHEN {new_status} = 'finished' OR (ended_at IS NOT NULL AND {new_status} IN ('running', 'waiting', 'stuck')) THEN NULL
            ELSE failure END";

/// The columns of a commit that changes tags.
const MORE_COLUMNS: &str = "
        tags = CASE WHEN {changes_tags}::bool THEN {tags}::text ELSE tags END,";

/// The wake time of a run after a new message; see `RunInfo::count_message`. `LEAST` ignores NULL.
const WAKE_AT_AFTER_MESSAGE: &str = "CASE WHEN status IN ('running', 'waiting') THEN LEAST(wake_at, {now}) ELSE wake_at END";

/// The wake time of a released run; see `RunInfo::apply_release`.
const WAKE_AT_AFTER_RELEASE: &str =
    "CASE free.next WHEN 'same' THEN r.wake_at WHEN 'delay' THEN {now} + {delay}::bigint ELSE NULL END";

/// The condition that the end of a run is plausible; `retention` explains it, and the 60 seconds. A
/// damaged time does not overflow.
const PLAUSIBLE_END: &str = "ended_at >= GREATEST(created, 0) - 60000 AND status NOT IN ('running', 'waiting', 'stuck')";

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
    LIST = "list" [
        "place" = "(created, no) < ({before_created}::bigint, {before_number}::bigint) AND created >= {since}::bigint",
        "order" = "created DESC, no DESC"]
        (before_created, before_number, since, count);
    LIST_STATUS = "list" [
        "place" = "(status, created) >= ({status}::text, {since}::bigint)
            AND (status, created, no) < ({status}::text, {before_created}::bigint, {before_number}::bigint)",
        "order" = "status DESC, created DESC, no DESC"]
        (before_created, before_number, since, count, status);
    LIST_GRAPH = "list" [
        "place" = "(graph, created) >= ({graph}::text, {since}::bigint)
            AND (graph, created, no) < ({graph}::text, {before_created}::bigint, {before_number}::bigint)",
        "order" = "graph DESC, created DESC, no DESC"]
        (before_created, before_number, since, count, graph);
    LIST_BOTH = "list" [
        "place" = "graph = {graph}::text AND (status, created) >= ({status}::text, {since}::bigint)
            AND (status, created, no) < ({status}::text, {before_created}::bigint, {before_number}::bigint)",
        "order" = "status DESC, created DESC, no DESC"]
        (before_created, before_number, since, count, status, graph);
    LIST_TAG = "list_tag" [] (before_created, before_number, since, count, key, value);
    LIST_PREFIX = "list_prefix" [] (first, end, count);
    REFUSED = "refused" [] (run);
    OVERDUE = "overdue" [] (due_for, count, versions);
    ROWS = "rows" [] (run, sequences, whole, bytes_max);
    ROWS_MANY = "rows_many" [] (runs, sequences, bytes_max);
    INBOX = "inbox" [] (run, after, count, bytes_max);
    UNTAKEN = "untaken" [] (run, number);
    CREATE = "create" ["more" = ""]
        (run, graph, fingerprint, schema, instance, status, head, owner, lease, is_due, wake_at, deadline, from_run, from_seq, sum,
         sequences, sums, headers, bodies, tags);
    /// Creates a run with tags.
    CREATE_TAGGED = "create" ["more" = include_str!("sql/create_more.sql")]
        (run, graph, fingerprint, schema, instance, status, head, owner, lease, is_due, wake_at, deadline, from_run, from_seq, sum,
         sequences, sums, headers, bodies, tags, tag_keys, tag_values);
    COMMIT = "commit" [
        "set" = include_str!("sql/commit_set.sql"), "more" = "", "more_columns" = "", "new_failure" = NEW_FAILURE,
        "new_wake_at" = NEW_WAKE_AT, "new_status" = NEW_STATUS, "new_deadline" = NEW_DEADLINE]
        (run, instance, epoch, head, new_head, status, seen, wake, wake_at, deadline_is, deadline, release, fingerprint, schema,
         sum_change, takes, sequences, sums, headers, bodies, failure);
    /// A commit that changes tags or refuses messages.
    COMMIT_MORE = "commit" [
        "set" = include_str!("sql/commit_set.sql"), "more" = include_str!("sql/commit_more.sql"), "more_columns" = MORE_COLUMNS,
        "new_failure" = NEW_FAILURE, "new_wake_at" = NEW_WAKE_AT, "new_status" = NEW_STATUS, "new_deadline" = NEW_DEADLINE]
        (run, instance, epoch, head, new_head, status, seen, wake, wake_at, deadline_is, deadline, release, fingerprint, schema,
         sum_change, takes, sequences, sums, headers, bodies, failure, changes_tags, tags, tag_keys, tag_values, refused,
         reasons, causes, refused_kept);
    /// Commits of several runs; none of them changes tags or a version, or refuses messages.
    COMMIT_MANY = "commit_many" [
        "set" = include_str!("sql/commit_set.sql"), "more_columns" = "", "new_failure" = NEW_FAILURE, "new_wake_at" = NEW_WAKE_AT,
        "new_status" = NEW_STATUS, "new_deadline" = NEW_DEADLINE, "new_head" = "c.new_head", "status" = "c.to_status",
        "seen" = "c.has_seen", "wake" = "c.wakes", "wake_at" = "c.to_wake_at", "deadline_is" = "c.deadline_is",
        "deadline" = "c.to_deadline", "release" = "c.releases", "fingerprint" = "NULL", "schema" = "NULL", "sum_change" = "0",
        "failure" = "c.to_failure"]
        (runs, instances, epochs, heads, new_heads, statuses, seens, wakes, wake_ats, deadlines_are, deadlines, releases, failures,
         places, sequences, sums, headers, bodies, takers, takes);
    FIND_COMMITTED = "find_committed" [] (run, instance, epoch, head, header);
    CLAIM = "claim" []
        (no, status, epoch, owner, lease, wake_at, takeovers, was_status, was_epoch, was_owner, was_lease_until, was_wake_at,
         was_takeovers);
    CLAIM_READY = "claim_ready" [] (graphs, fingerprints, schemas, owner, lease, count, takeovers_max);
    RELEASE_DAMAGED = "release_damaged" [] (keys, owner);
    RENEW = "renew" [] (runs, instances, epochs, leases);
    /// Renews one lease, and waits for its row.
    RENEW_ONE = "renew_one" [] (run, instance, epoch, lease, timeout);
    /// Releases the runs whose rows are not locked.
    RELEASE = "release" ["skip" = "SKIP LOCKED", "next_wake_at" = WAKE_AT_AFTER_RELEASE]
        (runs, instances, epochs, troubled, reason, delay, takeovers_max);
    /// Releases one run, and waits for its row.
    RELEASE_ONE = "release" ["skip" = "", "next_wake_at" = WAKE_AT_AFTER_RELEASE]
        (runs, instances, epochs, troubled, reason, delay, takeovers_max);
    INBOX_STATE = "inbox_state" [] (run, dedup, is_command, is_answer);
    ADD_MESSAGE = "add_message" ["new_wake_at" = WAKE_AT_AFTER_MESSAGE] (no, posted, room, replaces, name, dedup, sum, payload);
    RING = "ring" [] ();
    PRUNE_ROWS = "prune_rows" [] (run, instance, epoch, before, keep);
    ENDS_AROUND = "ends_around" ["plausible_end" = PLAUSIBLE_END] (unchanged_for, earliest);
    PRUNE_ENDED = "prune_ended" ["plausible_end" = PLAUSIBLE_END] (before, count, earliest);
    WRONG_ENDS = "wrong_ends" ["plausible_end" = PLAUSIBLE_END] (before, earliest);
    DELETE = "delete" [] (run);
    HOLDER = "holder" [] (run);
    ALL_RUNS = "all_runs" [] ();
    SEAL_RUN = "seal_run" [] (sum, no);
    CLOCK = "clock" [] ();
    DIAGNOSE = "diagnose" [] (indexes);
    DIAGNOSE_TABLES = "diagnose_tables" [] (tables);
    DIAGNOSE_TRANSACTIONS = "diagnose_transactions" [] (longer_than, count);
}

/// The tables, without those of [`LISTS`].
pub(super) const TABLES: &str = include_str!("sql/tables.sql");
/// The tag table and the indexes of lists.
pub(super) const LISTS: &str = include_str!("sql/lists.sql");
/// The migration from format 1 to 2, except for the checksums.
pub(super) const UPGRADE_2: &str = include_str!("sql/upgrade_2.sql");
/// The migration from format 2 to 3.
pub(super) const UPGRADE_3: &str = include_str!("sql/upgrade_3.sql");
/// The migration from format 3 to 4, without [`LISTS`].
pub(super) const UPGRADE_4: &str = include_str!("sql/upgrade_4.sql");
/// The migration from format 4 to 5.
pub(super) const UPGRADE_5: &str = include_str!("sql/upgrade_5.sql");

fn text(file: &str, own: &[(&str, &str)], parameters: &[&str]) -> String {
    let format = FORMAT.to_string();
    let common =
        [("known_format", KNOWN_FORMAT), ("format", &format), ("columns", COLUMNS), ("durable", DURABLE), ("now", NOW)];
    // The server does not need the comments.
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
    fn c11_every_name_in_a_statement_is_replaced() {
        for (name, statement) in ALL {
            assert!(!statement.contains('{'), "{name}: {}", statement.as_str());
        }
    }

    #[test]
    fn c7_every_statement_checks_the_format_of_the_tables() {
        // Only the first statement of a call needs the check. The migration itself does not, and a
        // diagnosis does not read the tables.
        for (name, statement) in ALL {
            let is_free =
                ["SESSION", "RING", "FIND_COMMITTED", "RELEASE_DAMAGED", "ALL_RUNS", "SEAL_RUN", "CLOCK"].contains(name);
            let is_free = is_free || name.starts_with("DIAGNOSE");
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
