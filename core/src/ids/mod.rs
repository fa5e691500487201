//! Identity and location of a member: its id, its name and its path.
//!
//! These are plain values. They hold no reference to the tree, so they stay valid after the member
//! has ended.

pub(crate) mod name;
pub(crate) mod path;
