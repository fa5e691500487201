//! `pleach demo` on a terminal: each key and what it does, and the way back to the shell.

use crate::demo::{ACCOUNTED, Temporary, is_alive, pid_in};
use crate::screen::Terminal;
use rustix::process::Signal;

const DOWN: &str = "\u{1b}[B";

/// Starts the show, and waits until it shows the actors.
fn show(temporary: &Temporary, size: (u16, u16)) -> Terminal {
    let folder = temporary.path().to_str().unwrap();
    let terminal = Terminal::start_with(&["demo", "--seed", "7"], size, &[("TMPDIR", folder)]);
    terminal.shows("ledger");
    terminal
}

/// Quits, and returns what the usual screen shows then.
fn quit(terminal: &mut Terminal) -> String {
    terminal.keys("q");
    let left = terminal.shows(ACCOUNTED.trim_end());
    assert_eq!(terminal.end(), 0, "{left}");
    assert!(!terminal.is_alternate() && terminal.has_former_modes());
    left
}

#[test]
fn demo_shows_tree_orders_account_and_story() {
    let temporary = Temporary::new();
    for (columns, rows) in [(80, 24), (120, 36), (200, 60)] {
        let mut terminal = show(&temporary, (columns, rows));
        terminal.shows("shipped");
        let screen = terminal.shows("stock failed: shelf");
        for part in ["pleach demo", "/400", "supervisor: gives up", "accepted = ", " in flight", "none twice", "q quit"] {
            assert!(screen.contains(part), "{columns}x{rows} {part}: {screen}");
        }
        terminal.shows("healthy");
        // It waits for the user, so it is not pushed out by newer orders.
        let screen = terminal.shows("approve  ");
        assert!(screen.contains("order-2 ") && screen.contains("press a"), "{screen}");
        terminal.picture(&format!("demo_{columns}x{rows}"));
        quit(&mut terminal);
    }
    assert!(temporary.folders().is_empty());
}

#[test]
fn keys_break_the_chosen_actor() {
    let temporary = Temporary::new();
    let mut terminal = show(&temporary, (120, 36));
    terminal.shows("▌  stock");
    terminal.keys("p");
    terminal.shows("stock panicked: the message is poisonous → restarted");
    terminal.keys("o");
    terminal.shows("5000 messages at once for stock: ");
    terminal.keys("x");
    terminal.shows("stopped stock through the socket");
    terminal.keys(DOWN);
    terminal.shows("▌  prices");
    terminal.keys("kp");
    terminal.shows("▌  stock");
    let left = quit(&mut terminal);
    assert!(!left.contains("\n0 failures"), "{left}");
}

#[test]
fn key_kills_the_worker_and_orders_continue_charged_once() {
    let temporary = Temporary::new();
    let mut terminal = show(&temporary, (120, 36));
    let screen = terminal.shows(" is up: ");
    let before = pid_in(screen.lines().find(|line| line.contains(" is up: ")).unwrap());
    // Some orders are paid, others are under way.
    terminal.shows("order-3 was shipped");
    terminal.keys("9");
    terminal.shows("the tree is gone");
    assert!(!is_alive(before));
    let screen = terminal.shows(" after their last step on disk");
    let line = screen.lines().find(|line| line.contains(" after their last step on disk")).unwrap();
    assert!(line.contains("none twice"), "{line}");
    let after = pid_in(line);
    assert!(before != after && is_alive(after));
    assert!(screen.contains("continues \"order-"), "{screen}");
    terminal.shows("kills -9 so far: 1");
    terminal.shows("order-6 was shipped");
    let left = quit(&mut terminal);
    assert!(left.contains("each order once") && left.contains("Worker processes killed before: 1."), "{left}");
    assert!(!is_alive(after));
}

#[test]
fn keys_approve_pause_and_help() {
    let temporary = Temporary::new();
    let mut terminal = show(&temporary, (120, 36));
    terminal.shows("press a");
    terminal.keys("a");
    terminal.shows("approved order-2: the answer is in the store");
    terminal.keys(" ");
    terminal.shows(" paused ");
    // No messages are sent any more, and queued ones are handled.
    terminal.shows(" 0 messages/s");
    terminal.shows("+ 0 in flight");
    terminal.keys(" ");
    terminal.hides(" paused ");
    terminal.shows("order-2 was shipped");
    terminal.keys("?");
    terminal.shows("Break something");
    terminal.keys("?");
    terminal.hides("Break something");
    quit(&mut terminal);
}

#[test]
fn lines_on_a_terminal_end_with_the_account_on_ctrl_c() {
    let temporary = Temporary::new();
    let folder = temporary.path().to_str().unwrap();
    let mut terminal = Terminal::start_with(&["demo", "--plain"], (120, 60), &[("TMPDIR", folder)]);
    terminal.shows(" is up: ");
    // It reaches the whole process group of the terminal, of which the worker is no part.
    terminal.keys("\u{3}");
    let screen = terminal.shows(ACCOUNTED.trim_end());
    assert_eq!(terminal.end(), 130, "{screen}");
    assert!(!screen.contains("killed before") && !terminal.raw().contains("\u{1b}["), "{screen}");
    assert!(temporary.folders().is_empty());
}

#[test]
fn signal_gives_the_terminal_back_and_ends_the_worker() {
    let temporary = Temporary::new();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut terminal = show(&temporary, (100, 30));
        let screen = terminal.shows(" is up: ");
        let worker = pid_in(screen.lines().find(|line| line.contains(" is up: ")).unwrap());
        terminal.signal(signal);
        terminal.shows(ACCOUNTED.trim_end());
        assert_eq!(terminal.end(), code);
        assert!(!terminal.is_alternate() && terminal.has_former_modes() && !is_alive(worker));
    }
    assert!(temporary.folders().is_empty());
}

#[test]
fn k1_demo_shows_the_whole_url_of_its_console() {
    let temporary = Temporary::new();
    let folder = temporary.path().to_str().unwrap();
    for size in [(80, 24), (80, 36), (120, 36)] {
        let mut terminal = Terminal::start_with(&["demo", "--console"], size, &[("TMPDIR", folder)]);
        let screen = terminal.shows("#token=");
        let url = screen.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:")).unwrap();
        let (_, token) = url.split_once("#token=").unwrap();
        assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{url}");
        terminal.shows("ledger");
        quit(&mut terminal);
    }
}
