//! Tests of the server.
//!
//! | file | owns |
//! |---|---|
//! | `routes` | each route and the guard, without a socket |
//! | `sockets` | the same at a real socket, byte by byte |
//! | `crowds` | many, slow and silent connections |
//! | `tls` | TLS, and addresses that other machines can reach |
//! | `hostile` | random and hostile parameters, panics |
//! | `real` | random parameters of a real system and real runs |

mod crowds;
mod hostile;
mod real;
mod routes;
mod sockets;
#[cfg(feature = "tls")]
mod tls;
