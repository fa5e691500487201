//! Small shared parts: future adapters, the runtime lookup, wakers and a work counter for tests.

pub(crate) mod future;
pub(crate) mod runtime;
pub(crate) mod waker;
pub(crate) mod work_count;
