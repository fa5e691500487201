//! F5, A3: every error here becomes `pleach::Error` by `?`, with its text and as its source; only payloads are dropped.

use pleach::prelude::*;
use pleach::{BoxError, Elapsed, Error, StashFull, Unreceived};

/// Whether `?` takes it where `pleach::Error` is returned.
fn is_taken<E: std::error::Error + Into<Error>>() {}

#[test]
fn a3_every_error_of_the_tree_becomes_the_one_error() {
    is_taken::<pleach::Refusal>();
    is_taken::<pleach::NameError>();
    is_taken::<pleach::PathError>();
    is_taken::<pleach::LookupError>();
    is_taken::<pleach::DispatchError<BoxError>>();
    is_taken::<pleach::PoolError>();
    is_taken::<pleach::GroupError>();
    is_taken::<GroupClosed<()>>();
    is_taken::<pleach::GoError<()>>();
    is_taken::<TaskError>();
    is_taken::<pleach::MapError>();
    is_taken::<pleach::RaceError>();
    is_taken::<AskError>();
    is_taken::<SendError<BoxError>>();
    is_taken::<pleach::LaunchError<()>>();
    is_taken::<pleach::ChildError>();
    is_taken::<pleach::WaitError>();
    is_taken::<pleach::ShutdownError>();
    is_taken::<FailureInfo>();
    is_taken::<Cause>();
    is_taken::<StashFull<BoxError>>();
    is_taken::<Unreceived<BoxError>>();
    is_taken::<Elapsed>();
    is_taken::<pleach::EndedUnasked>();
    is_taken::<pleach::Stalled>();
    is_taken::<pleach::BlockingError>();
    is_taken::<pleach::MountError>();
    is_taken::<pleach::NotStarted<crate::common::Doer>>();
    #[cfg(feature = "tokio")]
    is_taken::<pleach::NoRuntime>();
}

#[test]
fn a3_an_end_after_tidying_up_keeps_its_cause_as_an_error() {
    let ended = pleach::BlockingError::Ended(Exit::TidiedUp("moving house".into()));
    assert!(matches!(Error::from(ended), Error::Cancelled(cause) if cause == "moving house".into()));
}

#[cfg(feature = "graph")]
#[test]
fn f5_every_error_of_graphs_and_stores_becomes_the_one_error() {
    is_taken::<pleach::CompileError>();
    is_taken::<RunError<u32>>();
    is_taken::<RunFault>();
    is_taken::<NodeError>();
    is_taken::<pleach::PanicError>();
    is_taken::<pleach::RouterError>();
    is_taken::<pleach::MergeError>();
    is_taken::<pleach::FanOutTimeout>();
    is_taken::<pleach::StartError>();
    is_taken::<pleach::CheckpointError>();
    is_taken::<pleach::MismatchError>();
    is_taken::<pleach::ResumeError>();
    is_taken::<pleach::TellError>();
    is_taken::<pleach::EffectError>();
    is_taken::<pleach::store::StoreError>();
}

#[test]
fn a3_the_one_error_says_what_the_precise_one_says() {
    let texts = |precise: &dyn std::error::Error, error: Error| {
        assert_eq!((error.to_string(), format!("{error:?}")), (precise.to_string(), precise.to_string()));
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(source, Some(precise.to_string()));
    };
    texts(&StashFull(7), StashFull("dropped").into());
    texts(&Unreceived(7), Unreceived("dropped").into());
    texts(&Elapsed(Duration::from_secs(1)), Elapsed(Duration::from_secs(1)).into());
    texts(&pleach::Stalled, pleach::Stalled.into());
    #[cfg(feature = "graph")]
    texts(&RunFault::NoRuntime, RunFault::NoRuntime.into());
    #[cfg(feature = "tokio")]
    texts(&pleach::NoRuntime::WithoutTime, pleach::NoRuntime::WithoutTime.into());
}
