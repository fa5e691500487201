//! What a [`View`] may ask for, which source answers it, and how often it is looked at.

use crate::failure::Failure;
use crate::view::View;
use std::time::Duration;

/// Rows of a window, members, groups, runs or entries of a page.
const ROWS_MAX: u64 = 200;

/// Records of a page.
const RECORDS_MAX: u64 = 500;

/// Runs of a page of waits.
const WAITS_MAX: u64 = 100;

/// Open branches of a tree.
const OPEN_MAX: usize = 1_000;

/// Bytes of a parameter, except exported graphs.
const TEXT_MAX: usize = 8 * 1024;

impl View {
    /// Returns the key of the source that answers this view. `None`: the console answers it.
    pub(crate) fn source(&self) -> Option<&str> {
        Some(match self {
            Self::Tree(view) => &view.process,
            Self::Top(view) => &view.process,
            Self::NotWell(view) => &view.process,
            Self::Member(view) | Self::Ring(view) => &view.process,
            Self::Story(view) => &view.process,
            Self::Failures(view) => &view.process,
            Self::Runs(view) => &view.store,
            Self::RunGroups(view) => &view.store,
            Self::Run(view) => &view.store,
            Self::Timeline(view) => &view.store,
            Self::Value(view) => &view.store,
            Self::Diff(view) => &view.store,
            Self::Waiting(view) => &view.store,
            Self::Workers(view) => &view.store,
            Self::Deploy(view) => &view.store,
            Self::Graph(view) => &view.store,
            Self::Test(view) => view.process.as_ref().xor(view.store.as_ref())?,
            Self::Home(_) | Self::Actions(_) | Self::Bulk(_) => return None,
        })
    }

    /// Refuses what is above the limits. Sources may rely on them.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self {
            Self::Tree(view) => {
                at_most("count", view.count, ROWS_MAX)?;
                at_most("open", Some(view.open.len() as u64), OPEN_MAX as u64)?;
                view.open.iter().chain(&view.path).try_for_each(|path| short("path", path))
            }
            Self::Top(view) => at_most("limit", view.limit, ROWS_MAX),
            Self::Story(view) => at_most("limit", view.limit, ROWS_MAX),
            Self::Failures(view) => at_most("limit", view.limit, ROWS_MAX),
            Self::Runs(view) => at_most("limit", view.limit, ROWS_MAX),
            Self::Timeline(view) => at_most("limit", view.limit, RECORDS_MAX),
            Self::Waiting(view) => at_most("limit", view.limit, WAITS_MAX),
            Self::Actions(view) => at_most("limit", view.limit, ROWS_MAX),
            _ => Ok(()),
        }
    }

    /// Returns the shortest time between two looks for a stream.
    pub(crate) fn pace(&self) -> Duration {
        Duration::from_millis(match self {
            Self::Tree(_) | Self::Member(_) | Self::Story(_) | Self::Failures(_) => 250,
            Self::Bulk(_) | Self::Actions(_) => 500,
            Self::Top(_) | Self::NotWell(_) | Self::Ring(_) => 1_000,
            Self::Runs(_) | Self::RunGroups(_) | Self::Waiting(_) | Self::Workers(_) => 5_000,
            Self::Deploy(_) => 30_000,
            _ => 2_000,
        })
    }
}

fn at_most(name: &str, value: Option<u64>, limit: u64) -> Result<(), Failure> {
    match value {
        Some(value) if value > limit => Err(Failure::new("bad_request", format_args!("{name} is {value}; at most {limit}"))),
        _ => Ok(()),
    }
}

fn short(name: &str, text: &str) -> Result<(), Failure> {
    let bytes = text.len();
    if bytes <= TEXT_MAX {
        return Ok(());
    }
    Err(Failure::new("bad_request", format_args!("{name} has {bytes} bytes; at most {TEXT_MAX}")))
}
