//! The HTTP server: connections, the guard, routes and answers.
//!
//! | file | owns |
//! |---|---|
//! | `accept`, `tls` | how a connection is opened: plainly, or with TLS |
//! | `listen` | accepts and bounds connections, with time limits for reading and writing |
//! | `guard` | who may ask: `Host`, `Origin`, `Sec-Fetch-Site`, the token |
//! | `routes` | the table of all routes, and their handlers |
//! | `answer` | headers and bodies of all answers |

pub(crate) mod accept;
pub(crate) mod answer;
pub(crate) mod connections;
pub(crate) mod guard;
pub(crate) mod listen;
pub(crate) mod patient_io;
pub(crate) mod routes;
#[cfg(feature = "tls")]
pub(crate) mod tls;

#[cfg(test)]
mod tests;
