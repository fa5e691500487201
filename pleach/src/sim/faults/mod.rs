//! Faults that a seed chooses: failing handlers, crashed actors, late or silent I/O, failing
//! stores.
//!
//! A test asks for faults with [`Sim::inject`](crate::sim::Sim::inject), or with
//! [`Exploration::faults`](crate::sim::Exploration::faults). Without that nothing is injected, and
//! the schedule of a seed is that of a simulation without faults.
//!
//! | file | owns |
//! |---|---|
//! | `kind`, `fault` | what a test asks for |
//! | `injected` | a fault that happened, and its text |
//! | `injector` | the decision for each operation |
//! | `handlers` | faults in the messages of actors |
//! | `io` | faults in stand-ins for I/O, and in their wake-ups |
//! | `store` | faults in a store |

mod fault;
pub(super) mod handlers;
pub(super) mod injected;
pub(super) mod injector;
pub(super) mod io;
pub(super) mod kind;
#[cfg(feature = "graph")]
pub(super) mod store;

pub use fault::{DELAY_MAX_DEFAULT, FAULTS_MAX_DEFAULT, Fault, Faults};
pub use injected::InjectedFault;
pub use injector::INJECTED_MAX;
pub use io::{Io, IoSite};
pub use kind::FaultKind;
#[cfg(feature = "graph")]
pub use store::FaultyStore;
