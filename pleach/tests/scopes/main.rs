//! Tests of scopes and of the tree: tokens, cancellation, exits, names, shutdown.

#[path = "../common/mod.rs"]
mod common;

mod cancel_grace;
mod cancel_running;
mod edges;
mod end_from_inside;
mod isolation;
mod lookup;
mod mounted;
mod on_done;
mod produce;
mod scope;
mod shutdown;
mod shutdown_token;
mod tokens;
