//! routing

pub(crate) mod pool;
pub(crate) mod topic;
