//! The deploy check: which stored runs the graphs of a program would serve.
//!
//! | module | owns |
//! |---|---|
//! | `export` | [`GraphExport`]: a graph as data, with the versions that it accepts |
//! | `fit` | the decision for one run, as a pure function |
//! | `report` | [`DeployReport`]: counts and sample ids, by graph version and fit |
//! | `check` | [`DeployCheck`]: reads the runs of a store by pages |
//!
//! Typed graphs are exported first, so a program and a file of exports get the same answer.

mod check;
mod export;
mod fit;
mod report;

pub use check::DeployCheck;
pub use export::{EXPORT_FORMAT, GraphExport};
pub use fit::RunFit;
pub use report::{DEPLOY_GROUPS_MAX, DEPLOY_SAMPLES_MAX, DeployError, DeployGroup, DeployReport};
