//! [`Modes`]: what is switched on in the terminal while a view is shown, and the way back.
//!
//! Dropping it without [`Modes::end`] cannot happen: [`super::Screen`] calls it in its own drop,
//! also while a panic unwinds.

use super::writer::Writer;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use std::collections::VecDeque;
use std::io;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The alternate screen, empty, without a cursor; pasted text is marked.
const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[?25l\x1b[?2004h";

/// The reverse of [`ENTER`], with the colours of the shell.
const LEAVE: &str = "\x1b[?2026l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";

/// How long a terminal that takes nothing delays the end of the command.
const LEAVE_LIMIT: Duration = Duration::from_millis(500);

/// How many texts of panics are kept while a view is shown.
const PANICS_MAX: usize = 4;

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

pub struct Modes {
    is_entered: bool,
    panics: Arc<Panics>,
    /// The hook from before. It is used again afterwards.
    hook: Arc<Hook>,
}

/// Texts of panics, which would destroy the picture if they were written at once.
#[derive(Default)]
struct Panics {
    are_kept: AtomicBool,
    texts: Mutex<VecDeque<String>>,
}

impl Modes {
    pub fn enter(writer: &Writer) -> io::Result<Self> {
        enable_raw_mode()?;
        let panics = Arc::new(Panics::default());
        let hook: Arc<Hook> = Arc::from(std::panic::take_hook());
        let (kept, before) = (Arc::clone(&panics), Arc::clone(&hook));
        std::panic::set_hook(Box::new(move |info| {
            if !kept.keep(info) {
                before(info);
            }
        }));
        let mut modes = Self { is_entered: false, panics, hook };
        modes.enter_again(writer);
        Ok(modes)
    }

    pub fn enter_again(&mut self, writer: &Writer) {
        if self.is_entered {
            return;
        }
        // If the terminal is closed, writing to it fails next, and the view ends.
        drop(enable_raw_mode());
        writer.write(ENTER.into());
        self.panics.are_kept.store(true, Ordering::Relaxed);
        self.is_entered = true;
    }

    /// Gives the terminal back. Waits a moment until it has taken everything.
    pub fn leave(&mut self, writer: &Writer) {
        if !std::mem::take(&mut self.is_entered) {
            return;
        }
        writer.write(LEAVE.into());
        writer.wait_idle(LEAVE_LIMIT);
        // Also if the terminal is stuck: this does not write.
        drop(disable_raw_mode());
        self.panics.are_kept.store(false, Ordering::Relaxed);
    }

    /// Gives the terminal back. If this thread panics, its panic is shown.
    pub fn end(&mut self, writer: &Writer) {
        self.leave(writer);
        if std::thread::panicking() {
            for text in self.panics.take() {
                crate::output::remark(&text);
            }
        } else {
            let before = Arc::clone(&self.hook);
            std::panic::set_hook(Box::new(move |info| before(info)));
        }
    }
}

impl Panics {
    /// Keeps the text of a panic if a view is shown.
    fn keep(&self, info: &PanicHookInfo<'_>) -> bool {
        if !self.are_kept.load(Ordering::Relaxed) {
            return false;
        }
        let thread = std::thread::current();
        let text = format!("thread '{}' {info}", thread.name().unwrap_or("without a name"));
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.len() == PANICS_MAX {
            texts.pop_front();
        }
        texts.push_back(text);
        true
    }

    fn take(&self) -> VecDeque<String> {
        std::mem::take(&mut self.texts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
