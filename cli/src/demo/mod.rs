//! `pleach demo`: a live show of supervised actors and durable runs.
//!
//! Two processes. The *show* (this one) has the terminal: it starts the worker, watches it through
//! its inspection socket and its store, and tells what happens. The *worker* is a program like any
//! other: an actor system with a socket, and runs in a SQLite file. It can be killed at any time.
//!
//! | file | owns |
//! |---|---|
//! | `folder` | the folder of a demo, its lock, and what a killed demo leaves |
//! | `protocol` | what the two processes say to each other |
//! | `till` | the charges, outside of both |
//! | `worker` | the worker process |
//! | `show` | the show |

mod folder;
mod protocol;
mod show;
mod till;
mod worker;

use crate::args::DemoArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Runs the show, or its worker process.
pub async fn run(args: DemoArgs, output: &Output) -> Result<(), Failure> {
    match args.worker {
        Some(folder) => worker::run(folder, args.seed.unwrap_or_default()).await,
        None => show::run(&args, output).await,
    }
}
