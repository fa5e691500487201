//! `pleach demo`: supervised workers under load, then durable runs.
//!
//! | file | owns |
//! |---|---|
//! | `messages`, `workers`, `report` | the first part: every message is accounted for |
//! | `runs`, `essays` | the second part: runs that survive a kill of the demo |

mod essays;
mod messages;
mod report;
mod runs;
mod workers;

use crate::failure::{Failure, Status};
use crate::output::write_all;

/// Runs both parts and prints their reports.
pub async fn run() -> Result<(), Failure> {
    let failed = |text: String| Failure::new(Status::Failed, text);
    write_all(&format!("{}\n", messages::run().await.map_err(failed)?))?;
    let report = match runs::run().await {
        Ok(report) => report,
        Err(error) => {
            return Err(match error.downcast::<runs::Stopped>() {
                Ok(stopped) => stopped.0,
                Err(error) => failed(format!("the durable runs failed: {error}")),
            });
        }
    };
    write_all(&report.to_string())?;
    report.fault().map_or(Ok(()), |fault| Err(failed(format!("the durable runs are not correct: {fault}"))))
}
