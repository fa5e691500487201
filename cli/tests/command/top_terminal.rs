//! `pleach top` and its terminal: actions, signals, sizes, slow terminals, many actors.

use crate::fixture::call;
use crate::screen::Terminal;
use crate::shop::{Job, Shop};
use crate::top::{DOWN, ESC, SMALL, top};
use pleach::inspect::{Client, InspectAction};
use pleach::prelude::*;
use rustix::process::Signal;

#[tokio::test(flavor = "multi_thread")]
async fn actions_name_the_consequence_and_ask() {
    let shop = Shop::open([InspectAction::Suspend, InspectAction::Stop]);
    shop.stuck("till", 17).await;
    let mut terminal = top(&shop, &["--write"], SMALL);
    terminal.shows("actions on");
    terminal.keys("s");
    let screen = terminal.shows("Suspend /user/till?");
    assert!(screen.contains("room for 47 more"), "{screen}");
    terminal.keys("\rn");
    terminal.shows("nothing was changed");
    terminal.keys("s");
    terminal.shows("Suspend /user/till?");
    terminal.keys("y");
    terminal.shows("suspend of /user/till was ordered");
    shop.gate.add_permits(1);
    terminal.shows("suspended");
    terminal.keys("x");
    terminal.shows("become dead letters");
    terminal.keys("n");
    terminal.hides("Stop /user/till?");
    terminal.keys("r");
    terminal.shows("this process does not allow restart");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_of_the_process_is_shown() {
    let shop = Shop::open([InspectAction::Stop]);
    shop.stuck("till", 1).await;
    let mut terminal = top(&shop, &["--write", "--below", "/"], SMALL);
    terminal.keys("/inspect\r");
    terminal.hides("/user/till");
    terminal.keys("x");
    terminal.shows("Stop /system/inspect");
    terminal.keys("y");
    let screen = terminal.shows("was refused");
    assert!(screen.contains("belongs to the system"), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_are_not_offered_without_write() {
    let shop = Shop::open([InspectAction::Stop]);
    shop.stuck("till", 1).await;
    let mut terminal = top(&shop, &[], (120, 24));
    let screen = terminal.shows("read-only");
    assert!(!screen.contains("x stop"), "{screen}");
    terminal.keys("x");
    terminal.shows("with --write to stop members");
    assert!(!terminal.text().contains("Stop /user/till?"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_connection_is_shown_and_made_again() {
    let mut shop = Shop::open([]);
    shop.stuck("bank", 9).await;
    shop.stuck("till", 5).await;
    let mut terminal = top(&shop, &[], SMALL);
    terminal.keys("j");
    terminal.selects("/user/till");
    shop.gate.add_permits(1_000);
    shop.shut_down().await;
    let screen = terminal.shows("this picture is old");
    assert!(screen.contains("no connection") && screen.contains("/user/till"), "{screen}");
    shop.reopen();
    for (name, queued) in [("other", 30), ("till", 20), ("bank", 10)] {
        shop.stuck(name, queued).await;
    }
    let screen = terminal.shows("connected again");
    assert!(!screen.contains("no connection"), "{screen}");
    terminal.shows("/user/other");
    assert!(terminal.is_selected("/user/till"), "{}", terminal.text());
    shop.gate.add_permits(1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_is_restored_after_signals_and_quit() {
    let shop = Shop::open([]);
    shop.stuck("till", 1).await;
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130), (Signal::QUIT, 131)] {
        let mut terminal = top(&shop, &[], SMALL);
        terminal.signal(signal);
        assert_eq!(terminal.end(), code, "{signal:?}");
        terminal.writes_when("the usual screen", |raw| raw.ends_with("\u{1b}[?25h\u{1b}[?1049l"));
        assert!(!terminal.is_alternate() && terminal.has_former_modes(), "{signal:?}");
    }
    for (keys, code) in [("q", 0), ("\u{3}", 130)] {
        let mut terminal = top(&shop, &[], SMALL);
        terminal.keys(keys);
        assert_eq!(terminal.end(), code);
        assert!(terminal.has_former_modes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_z_gives_the_terminal_back_until_it_continues() {
    let shop = Shop::open([]);
    shop.stuck("till", 1).await;
    let mut terminal = top(&shop, &[], SMALL);
    assert!(terminal.is_alternate() && !terminal.has_former_modes());
    terminal.keys("\u{1a}");
    assert!(terminal.is_stopped());
    terminal.writes_when("the usual screen", |raw| raw.ends_with("\u{1b}[?25h\u{1b}[?1049l"));
    assert!(!terminal.is_alternate() && terminal.has_former_modes());
    terminal.signal(Signal::CONT);
    let screen = terminal.shows("/user/till");
    assert!(terminal.is_alternate() && !terminal.has_former_modes(), "{screen}");
    terminal.keys("q");
    assert_eq!(terminal.end(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_size_shows_the_essentials() {
    let shop = Shop::open([]);
    for index in 0..80 {
        shop.stuck(&format!("till-{index}"), index % 60).await;
    }
    let terminal = top(&shop, &[], (60, 20));
    for size in [(60, 20), (80, 24), (120, 40), (200, 60), (20, 5), (1, 1), (80, 24)] {
        terminal.resize(size.0, size.1);
        if size.0 < 60 {
            terminal.writes_when("a frame", |raw| raw.ends_with("\u{1b}[?2026l"));
            continue;
        }
        let screen = terminal.shows_when("a whole picture", |screen| {
            let lines: Vec<&str> = screen.lines().collect();
            lines.len() == usize::from(size.1) && lines[lines.len() - 1].ends_with("q quit")
        });
        for part in ["shop", "QUEUED", "RATE/s", "HANDLING", "queued in", "/user/till-59", "as of"] {
            assert!(screen.contains(part), "{size:?} {part}:\n{screen}");
        }
        assert_eq!(screen.contains("WAITS FOR"), size.0 == 200, "{screen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_the_process_are_harmless() {
    let shop = Shop::open([]);
    let evil = shop.system.spawn_started("till\u{202e}lit", shop.props()).await.unwrap();
    evil.tell(Job::Fail("\u{1b}]0;owned\u{7}\u{1b}[31mred\u{9b}5n\r\nnext".into())).unwrap();
    let mut terminal = top(&shop, &["--filter", "till"], (200, 30));
    terminal.shows("till\\u{202e}lit");
    terminal.shows("\\x1b]0;owned\\x07\\x1b[31mred");
    terminal.keys("\r");
    terminal.shows("last failure");
    let raw = terminal.raw();
    assert!(!raw.contains("\u{1b}]") && !raw.contains('\u{7}') && !raw.contains('\u{9b}') && !raw.contains('\u{202e}'));
    assert!(!raw.contains("\u{1b}[31mred"));
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_terminals_get_ascii_and_no_colours() {
    let shop = Shop::open([]);
    let full = shop.stuck("größe", 0).await;
    while full.tell(Job::Note).is_ok() {}
    let socket = shop.socket();
    let terminal = Terminal::start_with(&["top", &socket], SMALL, &[("LC_ALL", "C"), ("NO_COLOR", "1")]);
    let screen = terminal.shows("/user/gr??e");
    assert!(screen.contains("########") && screen.contains("QUEUEDv"), "{screen}");
    let raw = terminal.raw();
    assert!(raw.is_ascii());
    for code in 30..48 {
        assert!(!raw.contains(&format!(";{code}m")), "colour {code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_terminal_gets_few_frames_and_delays_no_signal() {
    let shop = Shop::open([]);
    for index in 0..60 {
        shop.stuck(&format!("till-{index}"), index).await;
    }
    let mut terminal = top(&shop, &[], (200, 60));
    terminal.hold(true);
    let before = terminal.frames();
    // At the pace of a person, so that each key could give a frame.
    let mut pace = tokio::time::interval(Duration::from_millis(105));
    for _ in 0..40 {
        pace.tick().await;
        terminal.keys("?");
    }
    terminal.keys(DOWN);
    terminal.hold(false);
    terminal.selects("/user/till-58");
    assert!(terminal.frames() - before < 25, "{} frames for 41 keys", terminal.frames() - before);
    // A terminal that takes nothing any more does not keep the command.
    terminal.hold(true);
    for _ in 0..40 {
        terminal.keys("?");
        terminal.keys(ESC);
    }
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.end(), 143);
    assert!(terminal.has_former_modes());
}

#[tokio::test(flavor = "multi_thread")]
async fn hundred_thousand_actors_cost_one_comparison_per_round() {
    let shop = Shop::open([]);
    let team = shop.system.supervisor("team", OneForOne::new()).unwrap();
    for index in 0..100_000 {
        team.spawn(&format!("w{index}"), shop.props()).unwrap();
    }
    shop.stuck("busy", 3).await;
    let mut terminal = top(&shop, &[], (120, 40));
    let screen = terminal.shows("100k actors");
    assert!(screen.contains("/user/busy"), "{screen}");
    terminal.keys(" ");
    terminal.shows("frozen");
    let mut client = Client::connect(shop.socket()).await.unwrap();
    let (frames, written, requests) = (terminal.frames(), terminal.raw().len(), client.hello().stats.requests);
    for step in 1..=10 {
        terminal.keys("j");
        terminal.selects_row(5 + step);
    }
    assert_eq!(terminal.frames() - frames, 10, "one frame for each step");
    assert!(terminal.raw().len() - written < 10 * 2_000, "two rows are written for each step");
    assert_eq!(client.refresh_hello().await.unwrap().stats.requests, requests + 1, "moving asks nothing");
    // The tree is read by window.
    terminal.keys(" 2");
    terminal.shows("▸ team");
    terminal.keys(":/user/team\r");
    terminal.shows("100k");
    terminal.keys("t");
    terminal.selects("▸ team");
    let requests = client.refresh_hello().await.unwrap().stats.requests;
    terminal.keys("l");
    terminal.shows("· w30");
    let asked = client.refresh_hello().await.unwrap().stats.requests - requests;
    assert!(asked < 30, "{asked} requests to open a branch of 100,000");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_one_table_or_object_is_printed() {
    let shop = Shop::open([]);
    shop.stuck("till", 17).await;
    let socket = shop.socket();
    let run = |arguments: &[&str]| call(&[&["top", socket.as_str()][..], arguments].concat());
    for arguments in [&["--once"][..], &[]] {
        let called = run(arguments);
        assert_eq!((called.code, called.err.as_str()), (0, ""), "{called:?}");
        assert!(called.out.starts_with("shop (pid ") && called.out.contains("/user/till "), "{called:?}");
        assert!(called.out.lines().all(|line| !line.ends_with(' ')) && !called.out.contains('\u{1b}'), "{called:?}");
    }
    let json: serde_json::Value = serde_json::from_str(&run(&["--json", "--limit", "1"]).out).unwrap();
    assert_eq!((&json["version"], &json["by"], &json["status"]), (&1.into(), &"queued".into(), &"healthy".into()));
    assert_eq!(json["rows"].as_array().unwrap().len(), 1);
    let row = &json["rows"][0];
    assert_eq!((&row["path"], &row["actor"]["queued"]), (&"/user/till".into(), &17.into()));
    assert_eq!(json["sums"]["queued"], 17);
    assert_eq!(run(&["--fields", "path", "--filter", "TILL", "--jq", ".rows[].path"]).out, "/user/till\n");
    let rate: serde_json::Value = serde_json::from_str(&run(&["--json", "--by", "rate", "--interval", "1ms"]).out).unwrap();
    assert_eq!(rate["rows"][0]["handled_per_s"].as_f64().map(|rate| rate >= 0.0), Some(true), "{rate}");
    assert_eq!(run(&["--below", "/user/nothing"]).code, 3);
    assert_eq!(run(&["--by", "nothing"]).code, 2);
    assert_eq!(call(&["top", "/nonexistent/socket", "--once"]).code, 3);
    let mut dumb = Terminal::start_with(&["top", &socket], SMALL, &[("TERM", "dumb")]);
    dumb.shows("--once");
    assert_eq!(dumb.end(), 2);
}
