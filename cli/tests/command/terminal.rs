//! The command on a terminal: questions, colours, widths.

use crate::fixture::{Fixture, Place};
use crate::process::{Process, worker};
use pleach::inspect::InspectAction;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use std::io::{Read as _, Write as _};

/// Calls the command on a terminal of this width, and types `input`. Returns the exit code and the
/// screen.
fn on_terminal(arguments: &[&str], width: u16, no_color: bool, input: &str) -> (u32, String) {
    let pair = native_pty_system().openpty(PtySize { rows: 40, cols: width, pixel_width: 0, pixel_height: 0 }).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_pleach"));
    command.args(arguments);
    command.env("TZ", "UTC");
    command.env_remove("NO_COLOR");
    if no_color {
        command.env("NO_COLOR", "1");
    }
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    pair.master.take_writer().unwrap().write_all(input.as_bytes()).unwrap();
    let mut reader = pair.master.try_clone_reader().unwrap();
    let mut screen = Vec::new();
    // The end of a terminal is an error on Linux.
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = reader.read(&mut chunk) {
        screen.extend_from_slice(&chunk[..count]);
    }
    (child.wait().unwrap().exit_code(), String::from_utf8(screen).unwrap())
}

#[tokio::test]
async fn tables_fit_the_terminal() {
    let fixture = Fixture::full(Place::Sqlite).await;
    for width in [60, 80, 200] {
        for arguments in [
            &["runs", "list", &fixture.store][..],
            &["runs", "history", &fixture.store, "order-3"],
            &["runs", "list", &fixture.store, "--group-by", "error"],
        ] {
            let (code, screen) = on_terminal(arguments, width, true, "");
            assert_eq!(code, 0, "{screen}");
            assert!(!screen.contains('\u{1b}'), "NO_COLOR: {screen}");
            for line in screen.lines() {
                assert!(line.chars().count() <= usize::from(width), "{width}: {line:?}");
            }
        }
    }
    let (_, coloured) = on_terminal(&["runs", "list", &fixture.store], 80, false, "");
    assert!(coloured.contains("\u{1b}[31mfailed\u{1b}[0m"), "{coloured}");
    let (_, json) = on_terminal(&["runs", "list", &fixture.store, "--json", "--limit", "1"], 80, false, "");
    assert!(json.contains("\r\n  \"version\": 1"), "indented for people: {json}");
}

/// Commands stay on one line, so that they can be copied. Everything else is wrapped.
#[tokio::test]
async fn sentences_are_wrapped_on_a_terminal() {
    let fixture = Fixture::full(Place::Sqlite).await;
    for (arguments, is_long) in [(&["why", &fixture.store, "stuck-1"][..], true), (&["doctor", &fixture.store], false)] {
        let (_, screen) = on_terminal(arguments, 60, true, "");
        let wrapped: Vec<&str> = screen.lines().filter(|line| !line.contains("do: ")).collect();
        assert!(wrapped.iter().all(|line| line.chars().count() <= 60), "{screen}");
        assert!(!is_long || wrapped.iter().any(|line| line.starts_with("       ")), "the text was long: {screen}");
    }
}

#[tokio::test]
async fn questions_are_asked_and_answered() {
    let fixture = Fixture::full(Place::Sqlite).await;
    let delete = ["runs", "delete", &fixture.store, "order-1"];
    let (code, screen) = on_terminal(&delete, 80, true, "no\n");
    assert!(code == 4 && screen.contains("Type yes to do it") && screen.contains("nothing was changed"), "{screen}");
    let (code, screen) = on_terminal(&delete, 80, true, "yes\n");
    assert!(code == 0 && screen.contains("delete of run order-1: done"), "{screen}");
    let prune = ["runs", "prune", &fixture.store, "--older-than", "0s"];
    let (code, screen) = on_terminal(&prune, 80, true, "yes\n");
    assert!(code == 4 && screen.contains("Type 1 to do it"), "the count must be typed: {screen}");
    let (code, screen) = on_terminal(&prune, 80, true, "1\n");
    assert!(code == 0 && screen.contains("1 ended runs were removed"), "{screen}");
}

/// A narrow terminal cuts lines, and a pipe gets them whole.
#[tokio::test(flavor = "multi_thread")]
async fn tree_and_why_fit_the_terminal() {
    let process = Process::start([InspectAction::Stop]);
    let gate = process.chain().await;
    process.system.spawn_started(&"long".repeat(30), worker()).await.unwrap();
    process.give_up().await;
    for width in [60, 80, 200] {
        for arguments in [&["tree", &process.socket][..], &["why", &process.socket, "/user/till"]] {
            let (code, screen) = on_terminal(arguments, width, true, "");
            assert_eq!(code, 0, "{screen}");
            assert!(!screen.contains('\u{1b}'), "NO_COLOR: {screen}");
            for line in screen.lines() {
                assert!(line.chars().count() <= usize::from(width), "{width}: {line:?}");
            }
        }
    }
    let piped = process.call("tree", &[]);
    assert!(piped.out.contains(&format!("  {} (actor) idle; 0 of 1024 queued, 0 handled\n", "long".repeat(30))), "{piped:?}");
    let (_, coloured) = on_terminal(&["why", &process.socket, "/user/till"], 80, false, "");
    assert!(coloured.contains("\u{1b}[31mcause:\u{1b}[0m /user/bank"), "{coloured}");
    let (code, screen) = on_terminal(&["stop", &process.socket, "/user/shop"], 80, true, "no\n");
    assert!(code == 4 && screen.contains("stop /user/shop: it stops after its current message"), "{screen}");
    gate.add_permits(1);
}
