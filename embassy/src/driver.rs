//! The task that drives a system: it polls what is ready, and sleeps otherwise.

use crate::clock::EmbassyClock;
use embassy_executor::{SendSpawner, SpawnError, Spawner};
use pleach_core::{Arc, Dispatcher, Runtime};

/// The number of runtimes that [`start`] and [`start_send`] can start in one program: 4.
///
/// The tasks that drive them are in static memory. A program with more systems runs several on one
/// runtime, or drives a [`dispatcher`] with a task of its own.
pub const RUNTIMES_MAX: usize = 4;

/// Creates a runtime on the clock of `embassy-time`, for a task of your own.
///
/// The task awaits [`Dispatcher::run_forever`] or [`Dispatcher::run_until`] directly, not inside a
/// combinator that polls with other wakers. Most programs call [`start`] instead.
pub fn dispatcher() -> Dispatcher {
    Dispatcher::new(EmbassyClock)
}

/// Starts a runtime on the executor of `spawner`, and returns it for
/// [`System::builder`](pleach_core::System::builder).
///
/// One task of that executor polls everything that runs on the runtime. It has no end: it sleeps
/// after its systems have ended. Any number of systems can share it.
///
/// # Errors
/// Returns [`SpawnError`] if [`RUNTIMES_MAX`] runtimes exist already.
pub fn start(spawner: Spawner) -> Result<Arc<dyn Runtime>, SpawnError> {
    let dispatcher = dispatcher();
    let runtime = dispatcher.runtime();
    spawner.spawn(drive(dispatcher)?);
    Ok(runtime)
}

/// Starts a runtime on an executor of another priority, such as an interrupt executor. Otherwise
/// like [`start`].
///
/// An actor on it interrupts the actors of executors with a lower priority. Addresses work across
/// runtimes.
///
/// # Errors
/// Returns [`SpawnError`] if [`RUNTIMES_MAX`] runtimes exist already.
pub fn start_send(spawner: SendSpawner) -> Result<Arc<dyn Runtime>, SpawnError> {
    let dispatcher = dispatcher();
    let runtime = dispatcher.runtime();
    spawner.spawn(drive(dispatcher)?);
    Ok(runtime)
}

#[embassy_executor::task(pool_size = RUNTIMES_MAX)]
async fn drive(dispatcher: Dispatcher) {
    match dispatcher.run_forever().await {}
}
