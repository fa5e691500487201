//! Whether the calling thread may block for a short time, and how.
//!
//! - A worker of a multi-thread Tokio runtime may: Tokio first gives its other tasks to another
//!   thread.
//! - The thread that runs the main future of such a runtime may: nothing else runs on it.
//! - Any other thread may not. It may have other tasks, as a current-thread runtime has.

pub(super) use known::may_block;

#[cfg(feature = "tokio")]
mod known {
    use tokio::runtime::{Handle, RuntimeFlavor, worker_index};
    use tokio::task::{block_in_place, try_id};

    /// How the calling thread blocks.
    pub(in super::super) enum Blocking {
        AsWorker,
        AsMain,
    }

    /// Returns how the calling thread may block.
    pub(in super::super) fn may_block() -> Option<Blocking> {
        let is_multi_thread = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
        match (is_multi_thread, worker_index(), try_id()) {
            (true, Some(_), _) => Some(Blocking::AsWorker),
            (true, None, None) => Some(Blocking::AsMain),
            // A task that is not on a worker belongs to a `LocalSet`.
            _ => None,
        }
    }

    impl Blocking {
        pub(in super::super) fn run<T>(self, act: impl FnOnce() -> T) -> T {
            match self {
                Self::AsWorker => block_in_place(act),
                Self::AsMain => act(),
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

    impl Blocking {
        pub(in super::super) fn run<T>(self, _: impl FnOnce() -> T) -> T {
            match self {}
        }
    }
}
