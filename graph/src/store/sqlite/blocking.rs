//! What is known about the calling thread: whether it may block for a short time and how, and which
//! runtime can wake the calling task.
//!
//! - A worker of a multi-thread Tokio runtime may: Tokio first gives its other tasks to another
//!   thread.
//! - The thread that runs the main future of such a runtime may: nothing else runs on it, unless it
//!   drives a `LocalSet` or another executor, whose tasks then wait.
//! - Any other thread may not. It may have other tasks, as a current-thread runtime has.

pub(super) use known::{WorkerRuntime, may_block};

#[cfg(feature = "tokio")]
mod known {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use tokio::runtime::{Handle, RuntimeFlavor, worker_index};
    use tokio::task::{block_in_place, try_id};

    /// How the calling thread blocks.
    pub(in super::super) enum Blocking {
        AsWorker,
        AsMain,
    }

    thread_local! {
        /// Tokio has rejected a block of this thread. It is not asked again, because it panics.
        static IS_REJECTED: Cell<bool> = const { Cell::new(false) };
    }

    /// Returns how the calling thread may block.
    pub(in super::super) fn may_block() -> Option<Blocking> {
        let is_multi_thread = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
        match (is_multi_thread, worker_index(), try_id()) {
            (true, Some(_), Some(_)) if !IS_REJECTED.get() => Some(Blocking::AsWorker),
            (true, None, None) => Some(Blocking::AsMain),
            // A task that is not on a worker belongs to a `LocalSet`. A worker without a task is a
            // current-thread runtime, which has entered the handle of another one.
            _ => None,
        }
    }

    /// The multi-thread runtime on whose workers the calling task runs.
    #[derive(Clone)]
    pub(in super::super) struct WorkerRuntime(Handle);

    impl WorkerRuntime {
        /// Returns `None` for a task that does not run on a worker. It can run while all workers
        /// are busy.
        pub(in super::super) fn current() -> Option<Self> {
            worker_index().and_then(|_| Handle::try_current().ok()).map(Self)
        }

        pub(in super::super) fn is_same(&self, other: &Self) -> bool {
            self.0.id() == other.0.id()
        }

        /// Drops a value on a worker. If the runtime has been shut down, drops it now.
        pub(in super::super) fn drop_there(&self, value: impl Send + 'static) {
            drop(self.0.spawn(async move { drop(value) }));
        }
    }

    impl Blocking {
        /// Calls `act`. Returns `None` without a call if the thread may not block after all: a
        /// task of a current-thread runtime that has entered the handle of another one looks like
        /// a task on a worker.
        pub(in super::super) fn run<T>(self, act: impl FnOnce() -> T) -> Option<T> {
            if let Self::AsMain = self {
                return Some(act());
            }
            let mut act = Some(act);
            match catch_unwind(AssertUnwindSafe(|| block_in_place(|| act.take().map(|act| act())))) {
                Ok(done) => done,
                Err(panic) if act.is_none() => resume_unwind(panic),
                Err(_) => {
                    IS_REJECTED.set(true);
                    None
                }
            }
        }
    }
}

#[cfg(not(feature = "tokio"))]
mod known {
    /// Without Tokio nothing is known about the calling thread.
    pub(in super::super) enum Blocking {}

    pub(in super::super) fn may_block() -> Option<Blocking> {
        None
    }

    #[derive(Clone)]
    pub(in super::super) enum WorkerRuntime {}

    impl WorkerRuntime {
        pub(in super::super) fn current() -> Option<Self> {
            None
        }

        pub(in super::super) fn is_same(&self, _: &Self) -> bool {
            match *self {}
        }

        pub(in super::super) fn drop_there(&self, _: impl Send + 'static) {
            match *self {}
        }
    }

    impl Blocking {
        pub(in super::super) fn run<T>(self, _: impl FnOnce() -> T) -> Option<T> {
            match self {}
        }
    }
}
