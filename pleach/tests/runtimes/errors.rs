//! A3 and F5: every error converts to `pleach::Error` with `?`. Its text and source are kept;
//! payloads are dropped.

use pleach::actor::StashFull;
use pleach::prelude::*;
use pleach::scope::{Elapsed, Unreceived};
use pleach::{BoxError, Error};

/// Compiles if `?` converts the error to `pleach::Error`.
fn converts<E: std::error::Error + Into<Error>>() {}

#[test]
fn a3_every_error_of_the_tree_converts_to_the_common_error() {
    converts::<pleach::actor::Refusal>();
    converts::<pleach::actor::NameError>();
    converts::<pleach::actor::PathError>();
    converts::<pleach::system::LookupError>();
    converts::<pleach::system::DispatchError<BoxError>>();
    converts::<pleach::routing::PoolError>();
    converts::<pleach::group::GroupError>();
    converts::<GroupClosed<()>>();
    converts::<pleach::group::GoError<()>>();
    converts::<TaskError>();
    converts::<pleach::group::MapError>();
    converts::<pleach::group::RaceError>();
    converts::<AskError>();
    converts::<SendError<BoxError>>();
    converts::<pleach::scope::LaunchError<()>>();
    converts::<pleach::supervise::ChildError>();
    converts::<pleach::scope::WaitError>();
    converts::<pleach::system::ShutdownError>();
    converts::<FailureInfo>();
    converts::<Cause>();
    converts::<StashFull<BoxError>>();
    converts::<Unreceived<BoxError>>();
    converts::<Elapsed>();
    converts::<pleach::supervise::UnexpectedExit>();
    converts::<pleach::runtime::Stalled>();
    converts::<pleach::scope::BlockingError>();
    converts::<pleach::system::MountError>();
    converts::<pleach::actor::SpawnStartedError<crate::common::TestActor>>();
    #[cfg(feature = "tokio")]
    converts::<pleach::runtime::NoRuntime>();
}

#[test]
fn a3_exit_after_cleanup_keeps_its_cause_as_an_error() {
    let ended = pleach::scope::BlockingError::Ended(Exit::TidiedUp("shutdown".into()));
    assert!(matches!(Error::from(ended), Error::Cancelled(cause) if cause == "shutdown".into()));
}

#[cfg(feature = "graph")]
#[test]
fn f5_every_error_of_graphs_and_stores_converts() {
    converts::<pleach::graph::CompileError>();
    converts::<RunError<u32>>();
    converts::<RunFault>();
    converts::<NodeError>();
    converts::<pleach::graph::PanicError>();
    converts::<pleach::graph::RouterError>();
    converts::<pleach::graph::MergeError>();
    converts::<pleach::graph::FanOutTimeout>();
    converts::<pleach::graph::StartError>();
    converts::<pleach::durable::CheckpointError>();
    converts::<pleach::durable::MismatchError>();
    converts::<pleach::durable::ResumeError>();
    converts::<pleach::durable::RunControlError>();
    converts::<pleach::durable::EffectError>();
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
    check(&pleach::runtime::Stalled, pleach::runtime::Stalled.into());
    #[cfg(feature = "graph")]
    check(&RunFault::NoRuntime, RunFault::NoRuntime.into());
    #[cfg(feature = "tokio")]
    check(&pleach::runtime::NoRuntime::WithoutTime, pleach::runtime::NoRuntime::WithoutTime.into());
}
