//! events

pub(crate) mod annotated;
pub(crate) mod cause;
pub(crate) mod counts;
pub(crate) mod event;
pub(crate) mod failure;
pub(crate) mod hub;
pub(crate) mod signal;
pub(crate) mod subscription;
