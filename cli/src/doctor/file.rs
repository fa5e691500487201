//! A SQLite file: rights, space, journal, holders, indexes, integrity.

use super::{Findings, Level, size};
use crate::failure::Failure;
use crate::output::counted;
use crate::runs::quoted;
use pleach::store::{SqliteDiagnosis, SqliteIntegrity, SqliteStore};
use std::path::Path;
use std::time::Duration;

/// How long the check of the pages may take without `--full`.
const CHECK_FOR: Duration = Duration::from_secs(5);

/// The free space below which commits may fail soon, and below which an operator should know.
const SPACE_MIN: u64 = 64 << 20;
const SPACE_LOW: u64 = 1 << 30;

/// The size of the write-ahead log from which on a reader seems to keep it from being reused.
const WAL_LARGE: u64 = 256 << 20;

/// The size from which on unused pages are worth a `VACUUM`.
const UNUSED_LARGE: u64 = 256 << 20;

/// Examines what can be seen without opening the store.
pub fn examine_outside(path: &Path, findings: &mut Findings) {
    #[cfg(unix)]
    {
        rights(path, findings);
        space(path, findings);
    }
    #[cfg(not(unix))]
    let _ = (path, findings);
}

/// Examines the open file.
pub async fn examine(store: &SqliteStore, is_full: bool, findings: &mut Findings) -> Result<(), Failure> {
    let found = store.diagnose((!is_full).then_some(CHECK_FOR)).await?;
    let name = store.path().display().to_string();
    journal(&found, findings);
    holders(&found, findings);
    if found.missing_indexes.is_empty() {
        findings.ok("indexes", "all indexes are there");
    } else {
        let text = format!("indexes are missing: {}; claims and lists read all runs", found.missing_indexes.join(", "));
        let advice = "another program dropped them; restore the file from a backup, or create them as in a new store";
        findings.bad(Level::Problem, "indexes", text, advice);
    }
    integrity(&found, &name, findings);
    let text = format!("{}, {} of it unused; SQLite {}", size(found.bytes), size(found.unused_bytes), found.sqlite_version);
    if found.unused_bytes > UNUSED_LARGE && found.unused_bytes > found.bytes / 2 {
        let advice = "SQLite uses the space again; to give it back to the disk, stop all programs, then vacuum";
        let command = format!("sqlite3 {} VACUUM", quoted(&name));
        findings.bad_with(Level::Warning, "size", text, advice, command);
    } else {
        findings.ok("size", text);
    }
    Ok(())
}

#[cfg(unix)]
fn rights(path: &Path, findings: &mut Findings) {
    use rustix::fs::{Access, access};
    use std::os::unix::fs::PermissionsExt as _;
    // A missing file is reported by opening it.
    let Ok(file) = path.metadata() else { return };
    let (name, folder) = (quoted(&path.display().to_string()), path.canonicalize().ok());
    let folder = folder.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    let others = file.permissions().mode() & 0o077;
    if access(path, Access::WRITE_OK).is_err() || access(folder, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let text = "this user cannot write the file or its folder; its programs need both, for SQLite's files beside it";
        let advice = "well, if the programs run as another user; otherwise give this user the file and its folder";
        findings.bad(Level::Warning, "rights", text, advice);
    } else if others != 0 {
        let text = format!("other users have access to the file (mode {:o})", file.permissions().mode() & 0o777);
        let advice = "states can contain secrets; keep the file to its owner, unless the access is wanted";
        findings.bad_with(Level::Warning, "rights", text, advice, format!("chmod 600 {name}"));
    } else {
        findings.ok("rights", "only the owner has access to the file, and this user can write it");
    }
}

#[cfg(unix)]
fn space(path: &Path, findings: &mut Findings) {
    let Ok(found) = rustix::fs::statvfs(path) else { return };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let text = format!("{} free on the file system", size(free));
    match free {
        0..SPACE_MIN => findings.bad(Level::Problem, "space", text, "free space now: commits fail when the disk is full"),
        SPACE_MIN..SPACE_LOW => findings.bad(Level::Warning, "space", text, "free space soon, or remove old runs with prune"),
        _ => findings.ok("space", text),
    }
}

fn journal(found: &SqliteDiagnosis, findings: &mut Findings) {
    let text = format!("journal mode {}, log of {}", found.journal_mode, size(found.wal_bytes));
    if found.journal_mode != "wal" {
        let advice = "another program changed it; a pleach program sets it back when it opens the file";
        findings.bad(Level::Problem, "journal", text, advice);
    } else if found.wal_bytes > WAL_LARGE {
        let advice = "a program that reads for long keeps SQLite from reusing its log; find it with lsof on the file";
        findings.bad(Level::Warning, "journal", text, advice);
    } else {
        findings.ok("journal", format!("{text}; programs sync each commit (synchronous=FULL)"));
    }
}

fn holders(found: &SqliteDiagnosis, findings: &mut Findings) {
    let alive = found.holders.iter().filter(|holder| holder.is_alive).count();
    let dead = found.holders.len() - alive;
    let died = if dead > 0 {
        format!("; {dead} have ended without closing it, and their leases have ended too")
    } else {
        String::new()
    };
    findings.ok("programs", format!("the file is open in {}{died}", counted(alive, "store")));
}

fn integrity(found: &SqliteDiagnosis, name: &str, findings: &mut Findings) {
    let full = format!("pleach doctor {} --full", quoted(name));
    match &found.integrity {
        SqliteIntegrity::Sound => findings.ok("integrity", "SQLite's check found no damaged page"),
        SqliteIntegrity::Faults(faults) => {
            let text = format!("SQLite found damage: {}", faults.join("; "));
            let advice = "stop all programs, copy the file away, and restore it from a backup";
            findings.bad(Level::Problem, "integrity", text, advice);
        }
        _ => {
            let text = format!("SQLite's check found no damage within {} s, and was not finished", CHECK_FOR.as_secs());
            findings.bad_with(Level::Warning, "integrity", text, "examine the whole file when there is time", full);
        }
    }
}
