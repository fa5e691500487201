//! `cargo xtask figures`: measures every row of the table in `bench/README.md`, and writes it.
//!
//! It builds all programs first, and then measures for less than 12 minutes, one program after the
//! other: `pleach-bench`, the crates of `bench/workflows`, and the peers in other languages. A peer
//! whose tools cannot be installed is left out, with a note.
//!
//! It writes the JSON lines of all programs to `bench/figures.jsonl`, the table between two marks
//! of `bench/README.md`, and the picture `docs/images/figures.svg`. `cargo xtask figures draw`
//! writes table and picture again from the JSON lines.

mod picture;
mod rows;

use rows::{Figure, ROWS};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::postgres::{Postgres, URL_VARIABLE};
use xtask::step::{Outcome, cargo, output_of, output_within};
use xtask::tools;

const JSON: &str = "bench/figures.jsonl";
const README: &str = "bench/README.md";
const PICTURE: &str = "docs/images/figures.svg";

/// The marks around the table.
const BEGIN: &str = "<!-- cargo xtask figures -->\n";
const END: &str = "<!-- end of figures -->\n";

/// Time limits: that of `pleach-bench`, and of each of four other programs. The sum is less than 12
/// minutes.
const MEASURE_TIME_MAX: Duration = Duration::from_secs(7 * 60);
const PEER_TIME_MAX: Duration = Duration::from_secs(60);

/// The packages of LangGraph, with its savers.
const LANGGRAPH: [&str; 4] = ["langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "psycopg[binary]"];

/// Builds, measures, and writes everything.
pub fn measure(root: &Path) -> Outcome {
    let peers = peers(root)?;
    let server = Postgres::start_durable()?;
    let mut bench = Command::new(target(root).join("release/pleach-bench"));
    let lines = target(root).join("figures.jsonl");
    bench.arg("--json").arg(&lines).env(URL_VARIABLE, server.url());
    for workload in rows::workloads() {
        bench.args(["--workload", workload]);
    }
    println!("pleach-bench, {} workloads", rows::workloads().count());
    output_within(MEASURE_TIME_MAX, &mut bench)?;
    let mut text = read(&lines)?;
    for (name, mut command) in peers {
        println!("{name}");
        match output_within(PEER_TIME_MAX, command.current_dir(root).env(URL_VARIABLE, server.url())) {
            Ok(said) => text.extend(said.split_inclusive('\n').filter(|line| line.starts_with('{'))),
            Err(why) => println!("  left out: {}", last_line(&why)),
        }
    }
    fs::write(root.join(JSON), &text).map_err(|error| format!("cannot write {JSON}: {error}"))?;
    draw(root)
}

/// Builds everything that [`measure`] runs, and installs the tools of the peers. Returns the
/// commands of the peers that can be run.
pub fn peers(root: &Path) -> Result<Vec<(&'static str, Command)>, String> {
    output_within(Duration::MAX, &mut cargo(&["build", "--release", "--package", "pleach-bench"]))?;
    let found =
        [("durare and dbos", workflows(root)), ("Go", go(root)), ("Erlang", erlang(root)), ("LangGraph", langgraph(root))];
    let mut peers = Vec::new();
    for (name, command) in found {
        match command {
            Ok(command) => peers.push((name, command)),
            Err(why) => println!("{name} is left out: {}", last_line(&why)),
        }
    }
    Ok(peers)
}

/// Writes the table and the picture.
pub fn draw(root: &Path) -> Outcome {
    let figures: Vec<Figure> = read(&root.join(JSON))?.lines().filter_map(Figure::parse).collect();
    if figures.is_empty() {
        return Err(format!("{JSON} has no figures; `cargo xtask figures` measures them"));
    }
    let readme = read(&root.join(README))?;
    let (before, rest) = readme.split_once(BEGIN).ok_or_else(|| format!("{README} has no line {}", BEGIN.trim()))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| format!("{README} has no line {}", END.trim()))?;
    let table = rows::table(ROWS, &figures);
    let write =
        |file: &str, text: &str| fs::write(root.join(file), text).map_err(|error| format!("cannot write {file}: {error}"));
    write(README, &format!("{before}{BEGIN}\n{table}\n{END}{after}"))?;
    write(PICTURE, &picture::draw(ROWS, &figures))?;
    println!("{table}\nwritten: {README}, {PICTURE}");
    Ok(())
}

fn workflows(root: &Path) -> Result<Command, String> {
    let folder = target(root).join("workflows");
    let mut build = cargo(&["build", "--release", "--manifest-path", "bench/workflows/Cargo.toml"]);
    output_within(Duration::MAX, build.env("CARGO_TARGET_DIR", &folder))?;
    let mut command = Command::new(folder.join("release/pleach-bench-workflows"));
    // The crate dbos runs no workflow without a version of its program.
    command.env("DBOS__APPVERSION", "bench");
    Ok(command)
}

fn go(root: &Path) -> Result<Command, String> {
    let go = tools::program(&["go"], "golang-go")?;
    let path = Path::new("/usr/share/gocode");
    if !path.join("src/golang.org/x/sync/errgroup").is_dir() && !tools::install("golang-golang-x-sync-dev") {
        return Err("errgroup is missing (Debian: `apt-get install golang-golang-x-sync-dev`)".into());
    }
    let program = target(root).join("go-peer");
    let mut build = Command::new(go);
    build.args(["build", "-o"]).arg(&program).arg("bench/go/peer.go").current_dir(root);
    output_of(build.env("GO111MODULE", "off").env("GOPATH", path))?;
    Ok(Command::new(program))
}

fn erlang(_root: &Path) -> Result<Command, String> {
    let mut command = Command::new(tools::program(&["escript"], "erlang-base")?);
    command.arg("bench/erlang/peer.escript");
    Ok(command)
}

fn langgraph(root: &Path) -> Result<Command, String> {
    let folder = target(root).join("tools/langgraph");
    let python = folder.join("bin/python");
    if !python.exists() {
        output_of(Command::new(tools::program(&["python3"], "python3-venv")?).args(["-m", "venv"]).arg(&folder))?;
        output_of(Command::new(folder.join("bin/pip")).args(["install", "--quiet"]).args(LANGGRAPH))?;
    }
    let mut command = Command::new(python);
    command.arg("bench/python/langgraph_peer.py");
    Ok(command)
}

fn target(root: &Path) -> PathBuf {
    root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default()
}
