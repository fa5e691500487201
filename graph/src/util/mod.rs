//! Small parts that every layer uses.

pub(crate) mod future;
pub(crate) mod runtime;
pub(crate) mod waker;
pub(crate) mod work_count;
