//! An error whose text cannot be made.

use crate::common::INJECTED;
use std::fmt;

/// Panics when its text is asked for.
#[derive(Debug)]
pub struct NoText;

impl fmt::Display for NoText {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("{INJECTED}")
    }
}

impl std::error::Error for NoText {}
