//! supervise

pub(crate) mod backoff;
pub(crate) mod decide;
pub(crate) mod restart_plan;
