//! ids

pub(crate) mod name;
pub(crate) mod path;
