//! Scopes: cancellation, endings, shutdown, and the tree that everything belongs to.

#[path = "../common/mod.rs"]
mod common;

mod cancel;
mod cancel_grace;
mod cut_off;
mod edges;
mod lookup;
mod mounted;
mod neighbours;
mod on_done;
mod produce;
mod scope;
mod shutdown;
mod shutdown_token;
