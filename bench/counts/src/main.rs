//! `pleach-counts OPERATION N`: runs an operation N times. `cargo xtask counts` runs it under
//! callgrind with few and with many, and compares the difference with `bench/counts/counts.txt`.
//!
//! Everything runs on a current-thread runtime, so that the counts are the same in every run. Only
//! pleach and Tokio are dependencies, so that it builds in a short time.
//!
//! - `actors`: a message, a request, a spawn, a restart;
//! - `work`: a task of a group, a node, a fan-out, a commit.

mod actors;
mod work;

use std::env;
use std::process::ExitCode;

use tokio::runtime::Builder;

/// Runs an operation this many times.
type Run = fn(u64);

/// The operations by their names in the file of counts.
const OPERATIONS: &[(&str, Run)] = &[
    ("tell", |n| on_runtime(actors::tell(n))),
    ("ask", |n| on_runtime(actors::ask(n))),
    ("spawn", |n| on_runtime(actors::spawn(n))),
    ("restart", |n| on_runtime(actors::restart(n))),
    ("group_task", |n| on_runtime(work::group_task(n))),
    ("graph_node", |n| on_runtime(work::graph_node(n))),
    ("fan_out", |n| on_runtime(work::fan_out(n))),
    ("commit", |n| on_runtime(work::commit(n))),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let chosen = match arguments.as_slice() {
        [name, n] => OPERATIONS.iter().find(|(known, _)| known == name).zip(n.parse().ok()),
        _ => None,
    };
    let Some(((_, run), n)) = chosen else {
        let names: Vec<&str> = OPERATIONS.iter().map(|(name, _)| *name).collect();
        eprintln!("pleach-counts takes OPERATION N; the operations are {}", names.join(", "));
        return ExitCode::FAILURE;
    };
    run(n);
    ExitCode::SUCCESS
}

/// Runs the work as a task, because a future that `block_on` polls is woken in another way.
fn on_runtime(work: impl Future<Output = ()> + Send + 'static) {
    let runtime = Builder::new_current_thread().enable_time().build().expect("the runtime starts");
    runtime.block_on(async { tokio::spawn(work).await.expect("the operation does not panic") });
}
