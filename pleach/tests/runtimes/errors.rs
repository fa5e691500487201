//! A3 and F5: every error converts to `pleach::Error` with `?`. Its text and source are kept;
//! payloads are dropped.

use pleach::prelude::*;
use pleach::{BoxError, Elapsed, Error, StashFull, Unreceived};

/// Compiles if `?` converts the error to `pleach::Error`.
fn converts<E: std::error::Error + Into<Error>>() {}

#[test]
fn a3_every_error_of_the_tree_converts_to_the_common_error() {
    converts::<pleach::Refusal>();
    converts::<pleach::NameError>();
    converts::<pleach::PathError>();
    converts::<pleach::LookupError>();
    converts::<pleach::DispatchError<BoxError>>();
    converts::<pleach::PoolError>();
    converts::<pleach::GroupError>();
    converts::<GroupClosed<()>>();
    converts::<pleach::GoError<()>>();
    converts::<TaskError>();
    converts::<pleach::MapError>();
    converts::<pleach::RaceError>();
    converts::<AskError>();
    converts::<SendError<BoxError>>();
    converts::<pleach::LaunchError<()>>();
    converts::<pleach::ChildError>();
    converts::<pleach::WaitError>();
    converts::<pleach::ShutdownError>();
    converts::<FailureInfo>();
    converts::<Cause>();
    converts::<StashFull<BoxError>>();
    converts::<Unreceived<BoxError>>();
    converts::<Elapsed>();
    converts::<pleach::EndedUnasked>();
    converts::<pleach::Stalled>();
    converts::<pleach::BlockingError>();
    converts::<pleach::MountError>();
    converts::<pleach::NotStarted<crate::common::TestActor>>();
    #[cfg(feature = "tokio")]
    converts::<pleach::NoRuntime>();
}

#[test]
fn a3_exit_after_cleanup_keeps_its_cause_as_an_error() {
    let ended = pleach::BlockingError::Ended(Exit::TidiedUp("shutdown".into()));
    assert!(matches!(Error::from(ended), Error::Cancelled(cause) if cause == "shutdown".into()));
}

#[cfg(feature = "graph")]
#[test]
fn f5_every_error_of_graphs_and_stores_converts() {
    converts::<pleach::CompileError>();
    converts::<RunError<u32>>();
    converts::<RunFault>();
    converts::<NodeError>();
    converts::<pleach::PanicError>();
    converts::<pleach::RouterError>();
    converts::<pleach::MergeError>();
    converts::<pleach::FanOutTimeout>();
    converts::<pleach::StartError>();
    converts::<pleach::CheckpointError>();
    converts::<pleach::MismatchError>();
    converts::<pleach::ResumeError>();
    converts::<pleach::TellError>();
    converts::<pleach::EffectError>();
    converts::<pleach::store::StoreError>();
}

#[test]
fn a3_common_error_has_the_text_of_its_source() {
    let check = |source_error: &dyn std::error::Error, error: Error| {
        assert_eq!((error.to_string(), format!("{error:?}")), (source_error.to_string(), source_error.to_string()));
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(source, Some(source_error.to_string()));
    };
    check(&StashFull(7), StashFull("dropped").into());
    check(&Unreceived(7), Unreceived("dropped").into());
    check(&Elapsed(Duration::from_secs(1)), Elapsed(Duration::from_secs(1)).into());
    check(&pleach::Stalled, pleach::Stalled.into());
    #[cfg(feature = "graph")]
    check(&RunFault::NoRuntime, RunFault::NoRuntime.into());
    #[cfg(feature = "tokio")]
    check(&pleach::NoRuntime::WithoutTime, pleach::NoRuntime::WithoutTime.into());
}
