//! A terminal for tests: the command runs in it, and the test reads its screen.
//!
//! With the variable `PLEACH_SCREENS=FOLDER`, [`Terminal::picture`] writes the cells of the screen
//! to that folder as JSON, so that they can be drawn and looked at.

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long a text may take to appear, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// A terminal with the command in it.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    received: Arc<Received>,
    /// The modes before the command, as text.
    modes_before: String,
    /// Keeps the modes of the terminal after the command has ended.
    _slave: Box<dyn portable_pty::SlavePty + Send>,
}

#[derive(Default)]
struct Received {
    state: Mutex<Option<State>>,
    more: Condvar,
}

struct State {
    parser: vt100::Parser,
    raw: Vec<u8>,
    /// How much of it the screen shows: a frame that has begun is shown at its end.
    shown: usize,
    /// Whether the terminal takes nothing.
    is_held: bool,
}

/// Begin and end of a frame.
const FRAME: &[u8] = b"\x1b[?2026h";
const FRAME_END: &[u8] = b"\x1b[?2026l";

impl Terminal {
    /// Starts the command on a terminal of this many columns and rows.
    pub fn start(arguments: &[&str], size: (u16, u16)) -> Self {
        Self::start_with(arguments, size, &[])
    }

    /// Starts the command with these environment variables.
    pub fn start_with(arguments: &[&str], (columns, rows): (u16, u16), variables: &[(&str, &str)]) -> Self {
        let pair = native_pty_system().openpty(size_of(columns, rows)).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_pleach"));
        command.args(arguments);
        command.env_remove("NO_COLOR");
        for (name, value) in [("TERM", "xterm-256color"), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC")].iter().chain(variables) {
            command.env(name, value);
        }
        let modes_before = format!("{:?}", pair.master.get_termios());
        let child = pair.slave.spawn_command(command).unwrap();
        let received = Arc::new(Received::default());
        *received.state() =
            Some(State { parser: vt100::Parser::new(rows, columns, 0), raw: Vec::new(), shown: 0, is_held: false });
        let (mut reader, of_thread) = (pair.master.try_clone_reader().unwrap(), Arc::clone(&received));
        std::thread::spawn(move || of_thread.read(&mut *reader));
        let keys = pair.master.take_writer().unwrap();
        Self { child, master: pair.master, keys, received, modes_before, _slave: pair.slave }
    }

    /// Waits until the screen has this text, and returns the whole screen.
    pub fn shows(&self, text: &str) -> String {
        self.shows_when(text, |screen| screen.contains(text))
    }

    /// Waits until the screen no longer has this text, and returns the whole screen.
    pub fn hides(&self, text: &str) -> String {
        self.shows_when(&format!("no {text}"), |screen| !screen.contains(text))
    }

    /// Waits for a screen for which `is_right` is true. `what` names it in the panic.
    pub fn shows_when(&self, what: &str, is_right: impl Fn(&str) -> bool) -> String {
        let is_wrong = |state: &mut Option<State>| !is_right(&contents(state));
        let (mut state, waited) = self.received.more.wait_timeout_while(self.received.state(), LIMIT, is_wrong).unwrap();
        let screen = contents(&mut state);
        drop(state);
        assert!(!waited.timed_out(), "after {LIMIT:?} the screen does not show {what:?}:\n{screen}");
        screen
    }

    /// Waits for raw output for which `is_right` is true.
    pub fn writes_when(&self, what: &str, is_right: impl Fn(&str) -> bool) {
        let is_wrong = |state: &mut Option<State>| !is_right(&String::from_utf8_lossy(&state.as_ref().unwrap().raw));
        let (state, waited) = self.received.more.wait_timeout_while(self.received.state(), LIMIT, is_wrong).unwrap();
        let raw = String::from_utf8_lossy(&state.as_ref().unwrap().raw).into_owned();
        assert!(!waited.timed_out(), "after {LIMIT:?} the output is not {what:?}: {raw:?}");
    }

    /// Returns the screen as text.
    pub fn text(&self) -> String {
        contents(&mut self.received.state())
    }

    /// Returns everything that the command wrote.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.received.state().as_ref().unwrap().raw).into_owned()
    }

    /// Returns how many frames the command has drawn.
    pub fn frames(&self) -> usize {
        self.raw().matches("\u{1b}[?2026h").count()
    }

    pub fn is_alternate(&self) -> bool {
        self.received.state().as_ref().unwrap().parser.screen().alternate_screen()
    }

    /// Returns whether a row with this text is shown reversed.
    pub fn is_selected(&self, text: &str) -> bool {
        reversed_rows(&mut self.received.state()).iter().any(|(_, line)| line.contains(text))
    }

    /// Waits until a row with this text is shown reversed.
    pub fn selects(&self, text: &str) {
        self.reverses(text, |_, line| line.contains(text));
    }

    /// Waits until the row with this number is shown reversed.
    pub fn selects_row(&self, row: usize) {
        self.reverses(&format!("row {row}"), |number, _| number == row);
    }

    fn reverses(&self, what: &str, is_right: impl Fn(usize, &str) -> bool) {
        let is_wrong = |state: &mut Option<State>| !reversed_rows(state).iter().any(|(number, line)| is_right(*number, line));
        let (mut state, waited) = self.received.more.wait_timeout_while(self.received.state(), LIMIT, is_wrong).unwrap();
        let screen = contents(&mut state);
        drop(state);
        assert!(!waited.timed_out(), "after {LIMIT:?} {what} is not selected:\n{screen}");
    }

    /// Types keys, as the bytes that a terminal sends for them.
    pub fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Takes no output any more, or takes it again.
    pub fn hold(&self, is_held: bool) {
        self.received.state().as_mut().unwrap().is_held = is_held;
        self.received.more.notify_all();
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        self.received.state().as_mut().unwrap().parser.screen_mut().set_size(rows, columns);
        self.master.resize(size_of(columns, rows)).unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.process_id().unwrap() as i32).unwrap()
    }

    /// Returns whether echo and line mode are as before the command.
    pub fn has_former_modes(&self) -> bool {
        format!("{:?}", self.master.get_termios()) == self.modes_before
    }

    /// Waits until the process is stopped, as by Ctrl-Z.
    pub fn is_stopped(&self) -> bool {
        let (began, options) = (std::time::Instant::now(), WaitOptions::UNTRACED | WaitOptions::NOHANG);
        while began.elapsed() < LIMIT {
            if waitpid(Some(self.pid()), options).unwrap().is_some_and(|(_, status)| status.stopped()) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Waits for the end of the command, and returns its exit code.
    pub fn end(&mut self) -> u32 {
        self.child.wait().unwrap().exit_code()
    }

    /// Writes the cells of the screen to a file, if pictures are wanted.
    pub fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("PLEACH_SCREENS") else { return };
        let state = self.received.state();
        let screen = state.as_ref().unwrap().parser.screen();
        let (rows, columns) = screen.size();
        let cell = |row, column| {
            let cell = screen.cell(row, column).unwrap();
            serde_json::json!([
                cell.contents(),
                colour(cell.fgcolor()),
                colour(cell.bgcolor()),
                cell.bold(),
                cell.dim(),
                cell.inverse(),
            ])
        };
        let lines: Vec<Vec<_>> = (0..rows).map(|row| (0..columns).map(|column| cell(row, column)).collect()).collect();
        let cursor = (!screen.hide_cursor()).then(|| screen.cursor_position());
        let picture = serde_json::json!({ "lines": lines, "cursor": cursor });
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.json")), picture.to_string()).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Received {
    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap()
    }

    fn read(&self, reader: &mut dyn Read) {
        let mut chunk = [0; 16_384];
        // The end of a terminal is an error on Linux.
        while let Ok(count @ 1..) = reader.read(&mut chunk) {
            let is_held = |state: &mut Option<State>| state.as_ref().unwrap().is_held;
            let mut state = self.more.wait_while(self.state(), is_held).unwrap();
            let state = state.as_mut().unwrap();
            state.raw.extend_from_slice(&chunk[..count]);
            state.show();
            self.more.notify_all();
        }
    }
}

impl State {
    /// Shows what was received, as a terminal with synchronized output does.
    fn show(&mut self) {
        let new = &self.raw[self.shown..];
        let last = |mark: &[u8]| new.windows(mark.len()).rposition(|part| part == mark);
        let end = match (last(FRAME), last(FRAME_END)) {
            (Some(begin), end) if end.is_none_or(|end| end < begin) => begin,
            _ => new.len(),
        };
        self.parser.process(&new[..end]);
        self.shown += end;
    }
}

/// Returns the rows whose tenth cell is reversed.
fn reversed_rows(state: &mut Option<State>) -> Vec<(usize, String)> {
    let screen = state.as_ref().unwrap().parser.screen();
    let is_reversed = |row: usize| screen.cell(row as u16, 10).is_some_and(vt100::Cell::inverse);
    screen.rows(0, screen.size().1).enumerate().filter(|(row, _)| is_reversed(*row)).collect()
}

fn contents(state: &mut Option<State>) -> String {
    state.as_ref().unwrap().parser.screen().contents()
}

fn size_of(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn colour(colour: vt100::Color) -> Option<u8> {
    match colour {
        vt100::Color::Idx(number) => Some(number),
        _ => None,
    }
}
