//! The terminal layer of the live views: `pleach top` and `pleach demo`.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | [`Screen`]: the loop's next input, and drawing |
//! | `modes` | what is switched on in the terminal, and the way back, also after a panic |
//! | `writer` | the thread that writes frames, one at a time |
//! | `keys` | the thread that reads keys |
//! | `signals` | signals as inputs |
//! | `canvas` | [`Canvas`]: the cells of one frame, and what of them changed |
//! | `look` | [`Look`]: colours by meaning, and glyphs with an ASCII form |
//! | `text` | cutting and wrapping by display width |
//! | `widgets` | mailbox bar, sparkline, panel, footer, help, confirmation, one-line input |
//!
//! A view is a loop over inputs. It owns its state and paints all of it each time:
//!
//! ```ignore
//! let mut screen = Screen::enter(Look::new(output.has_colour()))?;
//! loop {
//!     tokio::select! {
//!         input = screen.next() => match input {
//!             Input::Draw => screen.draw(|canvas| view.paint(canvas)),
//!             Input::Key(Key::Char('q')) => break,
//!             Input::Key(key) => view.key(key),
//!             Input::Paste(text) => view.paste(&text),
//!             Input::End(ending) => { drop(screen); return ending.into() }
//!         },
//!         update = updates.recv() => { view.apply(update); screen.change(); }
//!     }
//! }
//! ```
//!
//! Rules:
//! 1. [`Input::Draw`] comes only after a change (a key, a new size, [`Screen::change`]), at most
//!    ten times a second, and never while the terminal has not taken the frame before. So a slow
//!    terminal gets fewer frames, never old ones.
//! 2. A frame that equals the one before writes nothing. Otherwise only the changed cells are
//!    written, in one piece (synchronized output).
//! 3. Dropping the [`Screen`] restores the terminal; so does a panic of its thread. A panic of
//!    another thread, such as one of an actor, writes nothing while the screen is shown.
//! 4. Ctrl-Z and SIGTSTP restore the terminal and stop the process group; SIGCONT shows the screen
//!    again. Ctrl-C, SIGINT, SIGTERM, SIGHUP and SIGQUIT are [`Input::End`]. A view sees neither
//!    Ctrl-Z nor Ctrl-C as keys.
//! 5. The mouse is never captured, so text can be selected. Pasted text is never taken for keys.
//! 6. Control characters in painted text become visible escapes, at the latest in [`Canvas`].

mod canvas;
mod keys;
mod look;
mod modes;
mod signals;
pub mod text;
pub mod widgets;
mod writer;

pub use canvas::{Canvas, split_bottom, split_top};
pub use keys::Key;
pub use look::Look;
pub use ratatui_core::layout::Rect;
pub use ratatui_core::style::Style as CellStyle;
pub use ratatui_core::text::{Line, Span};
pub use signals::Ending;

use crate::failure::{Failure, Status};
use canvas::Frames;
use keys::{Keys, Typed};
use modes::Modes;
use signals::{Signal, Signals};
use std::io::IsTerminal as _;
use std::time::Duration;
use tokio::time::Instant;
use writer::Writer;

/// The shortest time between two frames.
const FRAME_EVERY: Duration = Duration::from_millis(100);

/// What a view reacts to.
#[derive(Debug, PartialEq, Eq)]
pub enum Input {
    /// Something changed and a frame can be written now: call [`Screen::draw`].
    Draw,
    /// A key was pressed.
    Key(Key),
    /// Text was pasted. It can contain anything.
    Paste(String),
    /// The view must end. Drop the screen first, then write a summary if there is one.
    End(Ending),
}

/// A terminal that shows a view.
pub struct Screen {
    look: Look,
    keys: Keys,
    signals: Signals,
    writer: Writer,
    frames: Frames,
    /// Whether something changed since the last frame.
    is_changed: bool,
    drawn_at: Option<Instant>,
    /// Whether the terminal belongs to the shell now.
    is_suspended: bool,
    /// Restores the terminal when it is dropped.
    modes: Modes,
}

impl Screen {
    /// Returns whether a view can be shown: input and output are a terminal that can place text.
    pub fn is_possible() -> bool {
        let can_place_text = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && can_place_text
    }

    /// Switches the terminal to the alternate screen. Must be called inside a Tokio runtime.
    pub fn enter(look: Look) -> Result<Self, Failure> {
        let signals = Signals::new().map_err(|error| failed("receive signals", &error))?;
        let writer = Writer::start().map_err(|error| failed("start a thread", &error))?;
        let modes = Modes::enter(&writer).map_err(|error| failed("change the terminal", &error))?;
        let keys = Keys::start().map_err(|error| failed("start a thread", &error))?;
        Ok(Self {
            look,
            keys,
            signals,
            writer,
            frames: Frames::new(size()),
            is_changed: true,
            drawn_at: None,
            is_suspended: false,
            modes,
        })
    }

    /// Asks for a frame: what the view shows has changed.
    pub fn change(&mut self) {
        self.is_changed = true;
    }

    /// Waits for the next input. Cancel safe: a dropped call loses nothing.
    pub async fn next(&mut self) -> Input {
        loop {
            let due = self.draw_at();
            tokio::select! {
                biased;
                signal = self.signals.next() => match signal {
                    Signal::End(ending) => return Input::End(ending),
                    Signal::Suspend => self.suspend(),
                    Signal::Continue => self.show_again(),
                },
                typed = self.keys.next() => {
                    self.is_changed = true;
                    match typed {
                        Typed::Key(Key::Ctrl('c')) => return Input::End(Ending::Interrupt),
                        Typed::Key(Key::Ctrl('z')) => signals::suspend_group(),
                        Typed::Key(key) => return Input::Key(key),
                        Typed::Paste(text) => return Input::Paste(text),
                        Typed::Resized => {}
                        Typed::End => return Input::End(Ending::HangUp),
                    }
                }
                is_open = self.writer.idle(), if self.writer.is_busy() => if !is_open {
                    return Input::End(Ending::HangUp);
                },
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => return Input::Draw,
            }
        }
    }

    /// Paints a frame and starts to write what changed. Does nothing while the frame before is
    /// being written, or the process is suspended.
    pub fn draw(&mut self, paint: impl FnOnce(&mut Canvas<'_>)) {
        if self.is_suspended || self.writer.is_busy() {
            return;
        }
        let bytes = self.frames.draw(size(), &self.look, paint);
        (self.is_changed, self.drawn_at) = (false, Some(Instant::now()));
        if !bytes.is_empty() {
            self.writer.write(bytes);
        }
    }

    /// Returns when the next frame may be drawn, if one is needed and can be written.
    fn draw_at(&self) -> Option<Instant> {
        let can_draw = self.is_changed && !self.is_suspended && !self.writer.is_busy();
        can_draw.then(|| self.drawn_at.map_or_else(Instant::now, |at| at + FRAME_EVERY))
    }

    fn suspend(&mut self) {
        self.modes.leave(&self.writer);
        self.is_suspended = true;
        signals::stop_process();
    }

    /// Takes the terminal again after SIGCONT. Another program may have used it meanwhile.
    fn show_again(&mut self) {
        self.modes.leave(&self.writer);
        self.modes.enter_again(&self.writer);
        self.frames.forget();
        (self.is_suspended, self.is_changed) = (false, true);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.modes.end(&self.writer);
    }
}

/// Returns the size of the terminal, or the usual one if it is not known.
fn size() -> Rect {
    let (width, height) = crossterm::terminal::size().ok().filter(|size| size.0 > 0 && size.1 > 0).unwrap_or((80, 24));
    Rect::new(0, 0, width, height)
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(Status::Failed, format_args!("cannot {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use portable_pty::{CommandBuilder, PtySize, native_pty_system};
    use std::io::Read as _;

    const CHILD: &str = "PLEACH_TEST_OF_A_PANIC";

    /// Runs itself again on a terminal, where it panics while a view is shown.
    #[test]
    fn panic_restores_the_terminal_and_is_shown_after_that() {
        if std::env::var_os(CHILD).is_some() {
            return panic_on_screen();
        }
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let modes = || format!("{:?}", pair.master.get_termios());
        let before = modes();
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(["--exact", "screen::tests::panic_restores_the_terminal_and_is_shown_after_that", "--nocapture"]);
        command.env(CHILD, "1");
        let mut child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let status = child.wait().unwrap();
        let after = modes();
        drop(pair.slave);
        let (mut written, mut chunk) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = reader.read(&mut chunk) {
            written.extend_from_slice(&chunk[..count]);
        }
        let written = String::from_utf8(written).unwrap();
        let (shown, left) = written.split_once("\x1b[?1049l").expect("the alternate screen was left");
        assert!(!status.success() && shown.contains("\x1b[?1049h") && shown.contains("view"), "{written:?}");
        assert!(left.contains("the view broke") && !shown.contains("the view broke"), "{written:?}");
        assert!(left.contains("another thread") && !shown.contains("another thread"), "{written:?}");
        assert_eq!(before, after, "echo and line mode are back");
    }

    fn panic_on_screen() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut screen = Screen::enter(Look::with(true, false)).unwrap();
            assert_eq!(screen.next().await, Input::Draw);
            screen.draw(|canvas| canvas.line(canvas.area(), Span::raw("a view")));
            assert!(std::thread::spawn(|| panic!("another thread")).join().is_err());
            panic!("the view broke");
        });
    }
}
