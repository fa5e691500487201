//! The question before a change.

use crate::args::Confirm;
use crate::failure::{Failure, Status};
use crate::output::escape::OneLine;
use crate::output::remark;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

/// Asks on the terminal whether to do what `question` says. The answer must be `expected`.
///
/// Without a terminal nothing can be asked, so the change is refused.
pub fn ask(question: &str, expected: &str, confirm: Confirm) -> Result<(), Failure> {
    if confirm.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let text = format!("not confirmed: {}", OneLine(question));
        return Err(Failure::new(Status::Refused, text).advice("add --yes to do it, or --dry-run to see what would happen"));
    }
    let _ = write!(io::stderr().lock(), "{} Type {expected} to do it: ", OneLine(question));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && answer.trim().eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    remark("nothing was changed");
    Err(Failure::new(Status::Refused, "not confirmed"))
}
