//! A running process, through its inspection socket.

use super::{Findings, Level};
use crate::failure::Failure;
use crate::output::times::short;
use crate::runs::quoted;
use crate::socket::SocketPath;
use pleach::inspect::{Health, Hello};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time of an answer from which on the process is slow.
const SLOW_ANSWER: Duration = Duration::from_millis(500);

pub async fn examine(path: &SocketPath, limit: Duration, findings: &mut Findings) -> Result<(), Failure> {
    rights(path.path(), findings);
    let begun = Instant::now();
    let mut socket = path.open(limit).await?;
    let health = socket.ask(async |client| client.health().await).await?;
    let answer = begun.elapsed();
    let hello = socket.hello();
    let text = format!("{} (process {}) answers in {}", hello.name, hello.pid, short(answer));
    if answer > SLOW_ANSWER {
        findings.bad(Level::Warning, "reachable", text, "its threads may be busy or blocked; look at `pleach top`");
    } else {
        findings.ok("reachable", text);
    }
    version(hello, findings);
    let name = quoted(&path.path().display().to_string());
    report_health(&health, &name, findings);
    let actions: Vec<String> = hello.actions.iter().map(|action| format!("{action:?}").to_lowercase()).collect();
    let actions = if actions.is_empty() { "none; it can only be looked at".to_string() } else { actions.join(", ") };
    findings.ok("actions", format!("allowed: {actions}"));
    let stats = hello.stats;
    let text = format!("{} connections, {} requests", stats.connections, stats.requests);
    if stats.refused + stats.too_slow + stats.missed_events > 0 {
        let text = format!(
            "{text}; {} refused, {} closed because they read too slowly, {} events left out",
            stats.refused, stats.too_slow, stats.missed_events
        );
        findings.bad(Level::Warning, "connections", text, "tools missed something; close some, or let them read faster");
    } else {
        findings.ok("connections", text);
    }
    Ok(())
}

fn version(hello: &Hello, findings: &mut Findings) {
    let text = format!("protocol {}, pleach {}", hello.protocol, hello.version);
    if hello.version == env!("CARGO_PKG_VERSION") {
        findings.ok("version", text);
    } else {
        let text = format!("{text}; this command is {}", env!("CARGO_PKG_VERSION"));
        findings.bad(Level::Warning, "version", text, "use the command of the same version, to see all that the process shows");
    }
}

fn report_health(health: &Health, name: &str, findings: &mut Findings) {
    match health {
        Health::Healthy => findings.ok("health", "healthy"),
        Health::Down => {
            let text = "the system is shutting down or has ended";
            findings.bad(Level::Problem, "health", text, "route no work to it; start the process again if it should run");
        }
        degraded => {
            for reason in degraded.reasons() {
                let command = format!("pleach health {name}");
                findings.bad_with(Level::Problem, "health", reason.to_string(), "the process is degraded", command);
            }
        }
    }
}

#[cfg(unix)]
fn rights(path: &Path, findings: &mut Findings) {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    // A missing file is reported by connecting to it.
    let Ok(file) = path.metadata() else { return };
    let (mode, owner, own) = (file.permissions().mode() & 0o777, file.uid(), rustix::process::geteuid().as_raw());
    if mode & 0o077 != 0 {
        let text = format!("other users can connect (mode {mode:o}), and see all that the socket shows");
        let command = format!("chmod 600 {}", quoted(&path.display().to_string()));
        findings.bad_with(Level::Problem, "rights", text, "the process sets 600; something changed it", command);
    } else if owner != own && own != 0 {
        let text = format!("the socket belongs to user {owner}, not to this one ({own})");
        findings.bad(Level::Warning, "rights", text, "run the command as the user of the process");
    } else {
        findings.ok("rights", "only its user can connect (mode 600)");
    }
}

#[cfg(not(unix))]
fn rights(_: &Path, _: &mut Findings) {}
