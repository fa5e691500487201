//! A PostgreSQL server and database: rights, durability, clock, connections, indexes, transactions.

use super::{Findings, Level, size};
use crate::failure::Failure;
use crate::output::times::short;
use crate::store::Target;
use pleach::store::{PostgresDiagnosis, PostgresStore};
use std::time::Duration;

/// The difference of two clocks from which on times of records mislead people.
const CLOCK_MAX: Duration = Duration::from_secs(2);

/// The time of a small statement from which on commits are slow.
const SLOW_ANSWER: Duration = Duration::from_millis(100);

/// The number of dead rows from which on vacuum seems to be held back.
const DEAD_ROWS: u64 = 100_000;

pub async fn examine(store: &PostgresStore, target: &Target, findings: &mut Findings) -> Result<(), Failure> {
    let found = store.diagnose().await?;
    server(&found, target, findings);
    clock(&found, findings);
    rights(&found, findings);
    connections(&found, findings);
    if found.missing_indexes.is_empty() {
        findings.ok("indexes", "all indexes are there and valid");
    } else {
        let text =
            format!("indexes are missing or invalid: {}; claims and lists read all runs", found.missing_indexes.join(", "));
        let advice = "they were dropped, or their creation failed; create them as in a new store (pg_dump --schema-only)";
        findings.bad(Level::Problem, "indexes", text, advice);
    }
    vacuum(&found, findings);
    let of_pleach: u64 = found.tables.iter().map(|table| table.bytes).sum();
    findings.ok("size", format!("{} in the tables of pleach, {} in the database", size(of_pleach), size(found.bytes)));
    Ok(())
}

fn server(found: &PostgresDiagnosis, target: &Target, findings: &mut Findings) {
    let version = format!("PostgreSQL {}", found.version);
    if found.is_in_recovery {
        let advice = "programs must connect to the primary, for example with target_session_attrs=read-write in the URL";
        findings.bad(Level::Problem, "server", format!("{version} is a standby, which accepts no writes"), advice);
    } else if found.is_read_only {
        let advice = "set default_transaction_read_only to off for this role and database";
        findings.bad(Level::Problem, "server", format!("{version} allows this role no writes by default"), advice);
    } else if !found.is_durable {
        let text = format!("{version} has fsync or full_page_writes off: a power failure can lose or damage confirmed commits");
        findings.bad(Level::Warning, "server", text, "well for tests; for other data set both to on");
    } else {
        findings.ok("server", format!("{version} syncs what it confirms"));
    }
    match (found.has_tls, is_local(&target.name())) {
        (true, _) => findings.ok("encryption", "the connection uses TLS"),
        (false, true) => findings.ok("encryption", "no TLS, and the server is on this machine"),
        (false, false) => {
            let advice = "others on the network can read states; add sslmode=require to the URL";
            findings.bad(Level::Warning, "encryption", "the connection to another machine has no TLS", advice);
        }
    }
}

/// Returns whether a URL without its password names this machine.
fn is_local(url: &str) -> bool {
    let place = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = place.split(['/', '?']).next().unwrap_or_default();
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let is_own = |host: &str| host.starts_with("localhost") || host.starts_with("127.") || host.starts_with("[::1]");
    host.is_empty() || host.starts_with("%2F") || host.split(',').all(is_own)
}

fn clock(found: &PostgresDiagnosis, findings: &mut Findings) {
    let (ahead, answer) = (found.clock_ahead, found.round_trip);
    let difference = Duration::from_millis(ahead.unsigned_abs());
    let side = if ahead < 0 { "behind" } else { "ahead of" };
    let text = format!("the server is {} {side} this machine, and answers in {}", short(difference), short(answer));
    if difference > CLOCK_MAX + answer {
        let advice = "leases use the server's clock only, but times of programs differ; run a time service on both machines";
        findings.bad(Level::Warning, "clock", text, advice);
    } else if answer > SLOW_ANSWER {
        findings.bad(Level::Warning, "clock", text, "every commit waits this long at least; look at the network and the load");
    } else {
        findings.ok("clock", text);
    }
}

fn rights(found: &PostgresDiagnosis, findings: &mut Findings) {
    let lacking: Vec<_> = found.tables.iter().filter(|table| !table.missing_privileges.is_empty()).collect();
    if lacking.is_empty() {
        findings.ok("rights", "this role may read and write all tables");
        return;
    }
    let list = |on: &str| -> Vec<String> {
        lacking.iter().map(|table| format!("{} {on} {}", table.missing_privileges.join(", "), table.name)).collect()
    };
    let role = found.role.replace('"', "\"\"");
    let text = format!("role {:?} lacks {}", found.role, list("on").join("; "));
    let grants: Vec<String> = list("ON").iter().map(|lack| format!("GRANT {lack} TO \"{role}\"")).collect();
    let advice = "well for a role that only looks; a program needs these rights";
    findings.bad_with(Level::Warning, "rights", text, advice, grants.join("; "));
}

fn connections(found: &PostgresDiagnosis, findings: &mut Findings) {
    let PostgresDiagnosis { connections, connections_max, .. } = found;
    let text = format!("{connections} of {connections_max} connections are in use");
    let advice = "lower the pool sizes of the programs, put a pooler in front, or raise max_connections";
    match connections.saturating_mul(100) / (*connections_max).max(1) {
        95.. => findings.bad(Level::Problem, "connections", text, advice),
        80..95 => findings.bad(Level::Warning, "connections", text, advice),
        _ => findings.ok("connections", text),
    }
}

fn vacuum(found: &PostgresDiagnosis, findings: &mut Findings) {
    for one in found.long_transactions.iter().take(3) {
        let text = format!(
            "a transaction of role {:?} ({:?}, {}) is open for {}; it keeps vacuum from removing dead rows",
            one.role,
            one.application,
            one.state,
            short(one.open_for)
        );
        let command = format!("SELECT pg_terminate_backend({})", one.pid);
        findings.bad_with(Level::Warning, "transactions", text, "end it in its program, or as an administrator", command);
    }
    if found.long_transactions.is_empty() {
        let own = if found.sees_all_transactions { "" } else { " of this role (pg_read_all_stats shows those of others)" };
        findings.ok("transactions", format!("no transaction{own} is open for more than a minute"));
    }
    for table in found.tables.iter().filter(|table| table.dead_rows > DEAD_ROWS && table.dead_rows > table.live_rows) {
        let text = format!("{} has {} dead rows and {} live ones", table.name, table.dead_rows, table.live_rows);
        let advice = "vacuum does not keep up; look at long transactions and at the settings of autovacuum";
        findings.bad_with(Level::Warning, "vacuum", text, advice, format!("VACUUM {}", table.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_this_machine_are_known() {
        for (url, expected) in [
            ("postgres://me@127.0.0.1:5432/d", true),
            ("postgres://me@localhost/d", true),
            ("postgres://me@[::1]:5432/d", true),
            ("postgres:///d?host=/run", true),
            ("postgres://me@%2Frun%2Fpostgresql/d", true),
            ("postgres://me@db.internal/d", false),
            ("postgres://me@localhost,db.internal/d", false),
        ] {
            assert_eq!(is_local(url), expected, "{url}");
        }
    }
}
