//! Supervised actors on Embassy: one task drives a whole system.
//!
//! This crate runs [`pleach_core`] on the executors and the timers of Embassy. [`start`] spawns one
//! task, which polls the actors, scopes and groups of a system and sleeps while none of them has
//! work.
//!
//! | item | what it does |
//! |---|---|
//! | [`start`], [`start_send`] | starts a runtime on an executor |
//! | [`EmbassyClock`] | the clock of `embassy-time` |
//! | [`dispatcher`] | a runtime for a task of your own |
//! | [`SignalStream`] | feeds an actor from a signal of `embassy-sync` |
//! | [`Watchdog`] | feeds a hardware watchdog while all parties report that they work |
//!
//! - Messages can be sent from interrupts with `tell` and `try_send`. Neither waits.
//! - Systems on several executors send messages to each other with the same addresses.
//! - In an actor, sleep with [`Context::sleep`](pleach_core::Context::sleep). A timer of
//!   `embassy-time` works only in a task of Embassy: most time drivers panic elsewhere.
//! - Without `std` a panic stops the device. Failures are returned errors.
//!
//! # Examples
//!
//! ```no_run
//! # extern crate alloc;
//! use core::convert::Infallible;
//! use core::time::Duration;
//! use embassy_executor::Spawner;
//! use pleach_core::{Actor, Context, OneForOne, Props, System};
//!
//! struct Blinker {
//!     is_on: bool,
//! }
//!
//! impl Actor for Blinker {
//!     type Msg = ();
//!     type Error = Infallible;
//!
//!     async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Infallible> {
//!         cx.send_every(Duration::from_millis(500), || ());
//!         Ok(())
//!     }
//!
//!     async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), Infallible> {
//!         self.is_on = !self.is_on;
//!         Ok(())
//!     }
//! }
//!
//! #[embassy_executor::task]
//! async fn main_task(spawner: Spawner) {
//!     let runtime = pleach_embassy::start(spawner).expect("a runtime is free");
//!     let system = System::builder("board", runtime).build().expect("a valid name");
//!     let workers = system.supervisor("workers", OneForOne::new()).expect("a free name");
//!     workers.spawn("blinker", Props::new(|| Blinker { is_on: false })).expect("a free name");
//!     system.ended().await;
//! }
//! ```
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod clock;
mod driver;
mod signal;
mod watchdog;

/// The chapter of the book about devices, whose program is compiled as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../docs/book/src/devices.md")]
struct DevicesChapter;

pub use clock::EmbassyClock;
pub use driver::{RUNTIMES_MAX, dispatcher, start, start_send};
pub use signal::SignalStream;
pub use watchdog::{NoSignOfLife, Watchdog, WatchdogMsg};
