//! The deploy check: which stored runs the graphs of a program would serve.
//!
//! | module | owns |
//! |---|---|
//! | `export` | [`GraphExport`]: a graph as data, with the versions that it accepts |
//! | `verdict` | the decision for one run, as a pure function |
//! | `report` | [`DeployReport`]: counts and sample ids, by graph version and verdict |
//! | `check` | [`DeployCheck`]: reads the runs of a store by pages |
//!
//! Typed graphs are exported first, so a program and a file of exports get the same answer.

mod check;
mod export;
mod report;
mod verdict;

pub use check::DeployCheck;
pub use export::{EXPORT_FORMAT, GraphExport};
pub use report::{DEPLOY_GROUPS_MAX, DEPLOY_SAMPLES_MAX, DeployError, DeployGroup, DeployReport};
pub use verdict::DeployVerdict;
