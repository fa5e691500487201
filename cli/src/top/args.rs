//! The arguments of `pleach top`.

use crate::live::args::SocketArgs;
use crate::output::times::parse_duration;
use crate::socket::parse_path;
use clap::{Args, ValueEnum};
use pleach::actor::ActorPath;
use pleach::inspect::TopBy;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub process: SocketArgs,
    /// What the members are sorted by, the largest first
    #[arg(long, value_enum, default_value_t)]
    pub by: SortBy,
    /// Only the member at this path and the members below it; default: /user
    #[arg(long, value_name = "PATH", value_parser = parse_path)]
    pub below: Option<ActorPath>,
    /// Only members whose path contains this text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub filter: Option<String>,
    /// How often the process is asked
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    pub interval: Duration,
    /// Print one table and end; so it is without a terminal, and with --json
    #[arg(long)]
    pub once: bool,
    /// The most rows of --once
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// Offer actions: stop, restart, suspend, resume, as far as the process allows them
    #[arg(long)]
    pub write: bool,
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    /// Messages in the mailbox
    #[default]
    Queued,
    /// Messages handled per second
    Rate,
    /// How long the current message has been handled
    Handling,
    /// Restarts that count towards the limit
    Restarts,
    /// Messages that failed
    Failed,
    /// Children
    Children,
}

impl SortBy {
    pub const ALL: [Self; 6] = [Self::Queued, Self::Rate, Self::Handling, Self::Restarts, Self::Failed, Self::Children];

    /// Returns the name in the protocol.
    pub fn wire(self) -> TopBy {
        match self {
            Self::Queued => TopBy::Queued,
            Self::Rate => TopBy::Rate,
            Self::Handling => TopBy::Handling,
            Self::Restarts => TopBy::Restarts,
            Self::Failed => TopBy::Failed,
            Self::Children => TopBy::Children,
        }
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Rate => "rate",
            Self::Handling => "handling",
            Self::Restarts => "restarts",
            Self::Failed => "failed",
            Self::Children => "children",
        }
    }

    /// Returns the key that sorts by it. The title of the column marks it.
    pub fn letter(self) -> char {
        match self {
            Self::Queued => 'Q',
            Self::Rate => 'R',
            Self::Handling => 'H',
            Self::Restarts => 'S',
            Self::Failed => 'F',
            Self::Children => 'C',
        }
    }
}
