//! How the command behaves: help, wrong arguments, closed pipes, full devices, colours.

use crate::fixture::{Fixture, Place, call, pleach};
use std::process::Stdio;

#[test]
fn help_version_completions_and_manual_are_printed() {
    for (arguments, part) in [
        (&["--help"][..], "Exit codes: 0 done"),
        (&["runs", "--help"], "unstick"),
        (&["--version"], "pleach 0."),
        (&["completions", "bash"], "_pleach"),
        (&["completions", "zsh"], "#compdef pleach"),
        (&["completions", "fish"], "complete -c pleach"),
        (&["man"], ".SH \"PLEACH RUNS REWIND\""),
    ] {
        let called = call(arguments);
        assert_eq!((called.code, called.err.as_str()), (0, ""), "{arguments:?}");
        assert!(called.out.contains(part), "{arguments:?}: {}", called.out);
    }
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_opened() {
    for arguments in [
        &[][..],
        &["nosuch"],
        &["runs"],
        &["runs", "list"],
        &["runs", "list", "mysql://h/d"],
        &["runs", "list", "env:PLEACH_NO_SUCH_VARIABLE"],
        &["runs", "list", "x.db", "--since", "yesterday"],
        &["runs", "list", "x.db", "--tag", "customer"],
        &["runs", "list", "x.db", "--limit", "0"],
        &["runs", "answer", "x.db", "run", "key", "{"],
        &["runs", "answer", "x.db", "run", "key", "plain text"],
        &["runs", "prune", "x.db"],
        &["graph", "render", "/dev/null"],
        &["completions", "nosuch"],
    ] {
        let called = call(arguments);
        assert_eq!((called.code, called.out.as_str()), (2, ""), "{arguments:?} {called:?}");
        assert!(!called.err.is_empty());
    }
    assert!(!std::path::Path::new("x.db").exists());
}

#[tokio::test]
async fn closed_pipe_is_an_exit_code() {
    let fixture = Fixture::full(Place::Sqlite).await;
    for arguments in [
        &["runs", "list", &fixture.store][..],
        &["runs", "tail", &fixture.store, "order-1"],
        &["why", &fixture.store, "order-2"],
        &["doctor", &fixture.store, "--json"],
        &["man"],
        &["--help"],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = pleach(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.as_str()), (Some(141), ""), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn full_device_is_an_exit_code() {
    let fixture = Fixture::full(Place::Sqlite).await;
    for arguments in [
        &["runs", "list", &fixture.store][..],
        &["runs", "show", &fixture.store, "order-1", "--json"],
        &["man"],
        &["runs", "tail", &fixture.store, "order-1"],
        &["runs", "history", &fixture.store, "order-1"],
        &["why", &fixture.store, "order-2"],
        &["doctor", &fixture.store],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = pleach(arguments).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(8), "{arguments:?} {err}");
        assert!(err.starts_with("error: cannot write the output"), "{err}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn demo_survives_neither_a_full_device_nor_a_closed_pipe_with_a_panic() {
    let folder = std::env::temp_dir().join(format!("pleach_cli_demo_{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = pleach(&["demo"]).env("TMPDIR", &folder).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(8), "{}", String::from_utf8_lossy(&output.stderr));
    drop(std::fs::remove_dir_all(&folder));
}

#[tokio::test]
async fn colours_are_for_terminals() {
    let fixture = Fixture::full(Place::Sqlite).await;
    let list = |extra: &[&str]| fixture.runs("list", extra).out;
    assert!(!list(&[]).contains('\u{1b}'), "not in a pipe");
    assert!(list(&["--color", "always"]).contains("\u{1b}[31mfailed\u{1b}[0m"));
    assert!(!list(&["--color", "never"]).contains('\u{1b}'));
    let table = list(&[]);
    assert!(table.lines().all(|line| !line.ends_with(' ')), "{table}");
}

#[tokio::test]
async fn times_are_utc_in_json_and_have_an_offset_in_text() {
    let fixture = Fixture::full(Place::Sqlite).await;
    let created = fixture.runs("show", &["order-1", "--jq", ".created"]).out;
    assert!(created.ends_with("Z\n") && created.contains('T'), "{created}");
    let arguments = ["runs", "show", &fixture.store, "order-1"];
    let shown = |zone: &str, extra: &[&str]| {
        let output = pleach(&[&arguments, extra].concat()).env("TZ", zone).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(shown("Asia/Kolkata", &[]).contains("+05:30 ("));
    assert!(shown("Asia/Kolkata", &["--utc"]).contains("+00:00 ("));
}
