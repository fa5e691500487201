//! `pleach console`: serves a web console for stores and running processes, on this machine.
//!
//! The console is read-only unless `--allow-actions` is given; then a store is opened for writing,
//! and a process decides itself which actions it takes. Everything is opened before the URL is
//! printed, so that a wrong argument is an error and not an empty page.
//!
//! | exit code | when |
//! |---|---|
//! | 0 | Ctrl-C, SIGTERM or SIGHUP ended it |
//! | 1 | the address cannot be used |
//! | 2 | the address is wrong or not of this machine; the file of the record cannot be used |
//! | 3, 5, 6 | a store or a process is missing, cannot be reached, or does not answer |

use crate::failure::{Failure, Status};
use crate::live::args::Place;
use crate::output::escape::OneLine;
use crate::output::times::parse_duration;
use crate::output::{Output, Report, Style, Version, remark};
use crate::store::Access;
use clap::Args;
use pleach_console::{Colour, Console, ConsoleBuilder, ConsoleError, ConsoleHandle};
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The program that opens a file in the browser of the user.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

#[derive(Debug, Args)]
pub struct ConsoleArgs {
    /// Stores, and inspection sockets of processes
    #[arg(value_parser = Place::parse, value_name = "STORE|SOCKET", required = true)]
    pub targets: Vec<Place>,
    /// The loopback address to listen on; port 0 takes a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub addr: String,
    /// Allow actions such as retry, answer and restart; without it the console only looks
    #[arg(long, visible_alias = "write")]
    pub allow_actions: bool,
    /// Keep the record of actions in a file that only you may read; the next console continues it
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// The name of the console; default: that of the first process or store
    #[arg(long)]
    pub name: Option<String>,
    /// Show the name and colour of the environment on every page, such as production=red
    #[arg(long, value_name = "NAME=COLOUR", value_parser = parse_environment)]
    pub environment: Option<(String, Colour)>,
    /// Open the console in the browser
    #[arg(long)]
    pub open: bool,
    /// How long to wait for each process to answer at the start; then exit code 6
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub timeout: Duration,
}

/// Parses the argument NAME=COLOUR.
fn parse_environment(text: &str) -> Result<(String, Colour), String> {
    let names = || Colour::ALL.map(Colour::name).join(", ");
    let (name, colour) =
        text.rsplit_once('=').ok_or_else(|| format!("write it as NAME=COLOUR; the colours are {}", names()))?;
    if name.is_empty() {
        return Err("the name of the environment is missing".into());
    }
    let colour = Colour::ALL.into_iter().find(|one| one.name() == colour);
    Ok((name.to_string(), colour.ok_or_else(|| format!("unknown colour; the colours are {}", names()))?))
}

pub async fn run(args: ConsoleArgs, output: &Output) -> Result<(), Failure> {
    // From here on a signal ends the console in order.
    let ended =
        ended_by_signal().map_err(|error| Failure::new(Status::Failed, format_args!("cannot listen to signals: {error}")))?;
    let mut builder = with_targets(builder(args.allow_actions), &args).await?;
    if let Some(record) = args.record {
        builder = builder.record_actions(record);
    }
    if let Some(name) = args.name {
        builder = builder.name(name);
    }
    if let Some((name, colour)) = args.environment {
        builder = builder.environment(name, colour);
    }
    let console = serve(builder, &args.addr).await?;
    let is_read_only = !args.allow_actions;
    output.print_line(&Serving { version: Version, url: console.url(), addr: console.addr(), is_read_only })?;
    let mode = if args.allow_actions { "Actions are allowed" } else { "The console is read-only" };
    remark(&format!("{mode}. Anyone who has the URL can use it. Ctrl-C ends the console."));
    let page = if args.open { open(console.url()) } else { None };
    ended.await;
    console.shutdown().await;
    drop(page);
    Ok(())
}

/// Listens to the signals that end the console. The future waits for one of them.
fn ended_by_signal() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    })
}

/// A builder with what all consoles of this command have.
pub fn builder(allows_actions: bool) -> ConsoleBuilder {
    let builder = Console::builder();
    let builder = match std::env::var("USER").or_else(|_| std::env::var("LOGNAME")) {
        Ok(user) if !user.is_empty() => builder.user(user),
        _ => builder,
    };
    if allows_actions { builder.allow_actions() } else { builder }
}

/// Adds all stores and processes, in the order of the arguments.
async fn with_targets(mut builder: ConsoleBuilder, args: &ConsoleArgs) -> Result<ConsoleBuilder, Failure> {
    let access = if args.allow_actions { Access::Write } else { Access::Read };
    for target in &args.targets {
        builder = match target {
            Place::Store(target) => builder.store(target.open_named(access).await?),
            Place::Socket(socket) => {
                drop(socket.open(args.timeout).await?);
                builder.socket(socket.path())
            }
        };
    }
    Ok(builder)
}

/// Starts a console.
pub async fn serve(builder: ConsoleBuilder, addr: &str) -> Result<ConsoleHandle, Failure> {
    builder.serve(addr).await.map_err(|error| {
        let status = match &error {
            ConsoleError::NotLoopback(_) | ConsoleError::NoAddress | ConsoleError::Option { .. } => Status::Usage,
            _ => Status::Failed,
        };
        Failure::new(status, OneLine(&error.to_string()))
    })
}

/// What is printed when the console is there.
#[derive(Serialize)]
struct Serving<'a> {
    version: Version,
    url: &'a str,
    addr: SocketAddr,
    is_read_only: bool,
}

impl Report for Serving<'_> {
    fn text(&self, _: &Style) -> String {
        format!("{}\n", self.url)
    }
}

/// A page on disk that leads to the console. Dropping it removes it.
struct Page(PathBuf);

impl Drop for Page {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// Opens the console in the browser of the user, and says so if that fails.
///
/// The browser gets a file that only this user can read: the arguments of a program are visible to
/// all users of a machine, and the URL has the token.
fn open(url: &str) -> Option<Page> {
    let opened = Page::write(url).and_then(|page| start(&page.0).map(|()| page));
    opened.map_err(|error| remark(&format!("cannot open the browser with {OPENER}: {error}; open the URL yourself"))).ok()
}

impl Page {
    fn write(url: &str) -> io::Result<Self> {
        let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let path = folder.join(format!("pleach-console-{}.html", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let page = Self(path);
        let text = "<!doctype html><meta charset=\"utf-8\"><title>pleach console</title>";
        writeln!(file, "{text}<meta http-equiv=\"refresh\" content=\"0; url={url}\"><a href=\"{url}\">Open the console</a>")?;
        Ok(page)
    }
}

fn start(page: &Path) -> io::Result<()> {
    let mut opener = Command::new(OPENER);
    let mut child = opener.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // It ends soon; a thread of its own waits for it, so that it does not stay as a zombie.
    std::thread::spawn(move || child.wait());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn environment_is_a_name_and_a_colour() {
        assert_eq!(parse_environment("production=red"), Ok(("production".into(), Colour::Red)));
        assert_eq!(parse_environment("a=b=grey"), Ok(("a=b".into(), Colour::Grey)));
        for wrong in ["production", "=red", "production=pink", ""] {
            assert!(parse_environment(wrong).is_err(), "{wrong}");
        }
        assert!(parse_environment("a=pink").is_err_and(|error| error.contains("red, amber, green, blue, violet, grey")));
    }

    #[test]
    fn k7_page_with_the_token_is_private_and_removed() {
        let page = Page::write("http://127.0.0.1:1/#token=secret").unwrap();
        let path = page.0.clone();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&path).unwrap().contains("url=http://127.0.0.1:1/#token=secret"));
        drop(page);
        assert!(!path.exists());
    }
}
