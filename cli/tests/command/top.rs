//! `pleach top` in a pseudo-terminal, on a real system in this process: what it shows.

use crate::screen::Terminal;
use crate::shop::{Job, Shop};
use pleach::inspect::{Client, Problem};
use pleach::prelude::*;

pub const SMALL: (u16, u16) = (80, 24);
pub const DOWN: &str = "\u{1b}[B";
pub const ESC: &str = "\u{1b}";

/// Starts the view and waits for its first rows.
pub fn top(shop: &Shop, extra: &[&str], size: (u16, u16)) -> Terminal {
    let socket = shop.socket();
    let mut arguments = vec!["top", &socket, "--interval", "250ms"];
    arguments.extend(extra);
    let terminal = Terminal::start(&arguments, size);
    terminal.shows("/user/");
    terminal
}

/// Returns whether `first` is above `second` on the screen.
fn is_above(screen: &str, first: &str, second: &str) -> bool {
    screen.find(first).zip(screen.find(second)).is_some_and(|(first, second)| first < second)
}

#[tokio::test(flavor = "multi_thread")]
async fn first_picture_shows_the_busiest_actors() {
    let shop = Shop::open([]);
    for (name, queued) in [("till", 17), ("bank", 63), ("idle", 0)] {
        shop.stuck(name, queued).await;
    }
    let terminal = top(&shop, &[], SMALL);
    let screen = terminal.shows("healthy");
    assert!(is_above(&screen, "/user/bank", "/user/till") && is_above(&screen, "/user/till", "/user/idle"), "{screen}");
    for part in ["shop", "read-only", "80 queued in", "every 250 ms", "as of ", "QUEUED", "compared in", "? keys", "q quit"] {
        assert!(screen.contains(part), "{part} is missing:\n{screen}");
    }
    assert!(screen.contains(&format!("pid {}", std::process::id())), "{screen}");
    assert!(!terminal.raw().contains("\u{1b}[?1000h"), "the mouse is not captured");
}

#[tokio::test(flavor = "multi_thread")]
async fn marked_keys_of_the_titles_sort() {
    let shop = Shop::open([]);
    shop.stuck("full", 60).await;
    let failing = shop.system.spawn_started("failing", shop.props()).await.unwrap();
    failing.tell(Job::Fail("no ink".into())).unwrap();
    let parent = shop.system.supervisor("parent", OneForOne::new()).unwrap();
    parent.spawn("child", shop.props()).unwrap();
    let mut terminal = top(&shop, &[], (120, 30));
    terminal.shows_when("full first", |screen| is_above(screen, "/user/full", "/user/failing"));
    for (key, title) in [("F", "FAILED↓"), ("S", "RESTARTS↓")] {
        terminal.keys(key);
        terminal.shows_when(title, |screen| screen.contains(title) && is_above(screen, "/user/failing", "/user/full"));
    }
    for (key, title) in [("H", "HANDLING↓"), ("Q", "QUEUED↓")] {
        terminal.keys(key);
        terminal.shows_when(title, |screen| screen.contains(title) && is_above(screen, "/user/full", "/user/failing"));
    }
    terminal.keys("R");
    terminal.shows("RATE/s↓");
    terminal.keys("C");
    terminal.shows("CHILDREN↓");
}

#[tokio::test(flavor = "multi_thread")]
async fn selection_stays_on_the_node() {
    let shop = Shop::open([]);
    shop.stuck("bank", 40).await;
    let till = shop.stuck("till", 17).await;
    let mut terminal = top(&shop, &[], SMALL);
    terminal.keys("j");
    terminal.selects("/user/till");
    (0..40).for_each(|_| till.tell(Job::Note).unwrap());
    terminal.shows_when("till first", |screen| is_above(screen, "/user/till", "/user/bank"));
    assert!(terminal.is_selected("/user/till") && !terminal.is_selected("/user/bank"));
    // It stays also when the member is not among the first rows any more.
    for index in 0..70 {
        shop.stuck(&format!("other-{index}"), 62).await;
    }
    let screen = terminal.shows_when("till outside", |screen| screen.contains("…/user/till"));
    assert!(terminal.is_selected("/user/till"), "{screen}");
    shop.gate.add_permits(1_000);
    till.any().stop();
    terminal.shows("the selected member has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn filter_is_applied_by_the_process() {
    let shop = Shop::open([]);
    for name in ["till", "bank", "Bank-of-tea"] {
        shop.stuck(name, 3).await;
    }
    let mut terminal = top(&shop, &[], SMALL);
    terminal.keys("/ban");
    terminal.hides("/user/till");
    let screen = terminal.shows("2 matching actors");
    assert!(
        screen.contains("/user/bank") && screen.contains("/user/Bank-of-tea") && screen.contains("filter: ban"),
        "{screen}"
    );
    terminal.keys("k!\r");
    terminal.shows("no actor has this text");
    terminal.shows("/bank!");
    terminal.keys(ESC);
    terminal.shows("/user/till");
    // Pasted text is taken for no keys.
    terminal.keys("/\u{1b}[200~q\rx\u{1b}[201~");
    terminal.shows("filter: qx");
    terminal.keys(ESC);
    terminal.shows("/user/till");
}

#[tokio::test(flavor = "multi_thread")]
async fn detail_says_what_a_member_does_and_why() {
    let shop = Shop::open([]);
    let bank = shop.stuck("bank", 2).await;
    let till = shop.system.spawn_started("till", shop.props()).await.unwrap();
    till.tell(Job::Fail("no ink".into())).unwrap();
    till.tell(Job::Ask(bank.clone())).unwrap();
    (0..5).for_each(|_| till.tell(Job::Note).unwrap());
    let clerk = shop.system.spawn_started("clerk", shop.props()).await.unwrap();
    clerk.tell(Job::Ask(bank.clone())).unwrap();
    let mut terminal = top(&shop, &["--filter", "till"], (80, 40));
    terminal.shows("1 matching actor");
    terminal.keys("\r");
    for part in [
        "actor, id ",
        "asks /user/bank",
        "5 of 64 queued",
        "7 accepted = 0 handled + 1 failed + 0 dead letters + 6 open",
        "1 of ",
        "incarnation 1",
        "no ink",
        "cause /user/bank handles one",
        "so /user/till asks /user/bank",
        "/user/clerk asks /user/bank",
        "none since this was opened",
        "Esc back",
    ] {
        terminal.shows(part);
    }
    let other = shop.system.spawn_started("tills", shop.props()).await.unwrap();
    shop.gate.add_permits(9);
    other.tell(Job::Fail("not here".into())).unwrap();
    till.tell(Job::Fail("no paper".into())).unwrap();
    let screen = terminal.shows("/user/till failed: no paper");
    assert!(!screen.contains("not here"), "{screen}");
    till.any().stop();
    terminal.shows("has ended");
    terminal.keys(ESC);
    terminal.shows("QUEUED");
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_is_opened_and_read_in_pages() {
    let shop = Shop::open([]);
    let team = shop.system.supervisor("team", OneForOne::new()).unwrap();
    for index in 0..250 {
        team.spawn(&format!("w{index}"), shop.props()).unwrap();
    }
    let mut terminal = top(&shop, &[], SMALL);
    terminal.keys("2");
    let screen = terminal.shows("▸ team");
    assert!(screen.contains("▾ user") && screen.contains("▸ system"), "{screen}");
    terminal.keys(":/user/team\r");
    terminal.shows("250");
    terminal.keys("t");
    terminal.selects("▸ team");
    terminal.keys("l");
    terminal.shows("· w0 ");
    for last in ["· w99 ", "· w199", "· w249"] {
        terminal.keys("G");
        terminal.shows(last);
    }
    terminal.keys("gl");
    terminal.keys("h");
    terminal.shows("▸ ");
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_show_only_what_is_not_well() {
    let shop = Shop::open([]);
    let till = shop.stuck("till", 1).await;
    let _report = till.any().report_health(Problem::new("paper", "the paper is low").advice("add paper"));
    shop.system.spawn_started("fine", shop.props()).await.unwrap();
    let idle = shop.system.spawn_started("idle", shop.props()).await.unwrap();
    idle.any().suspend().unwrap();
    let mut terminal = top(&shop, &[], SMALL);
    terminal.shows("degraded: 1 problem");
    terminal.keys("3");
    terminal.shows("the paper is low; add paper");
    let screen = terminal.shows("suspended /user/idle");
    assert!(!screen.contains("QUEUED") && !screen.contains("fine"), "{screen}");
    terminal.keys("\r");
    terminal.shows("1 of 64 queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn palette_jumps_and_runs_commands() {
    let shop = Shop::open([]);
    shop.stuck("till", 1).await;
    let mut terminal = top(&shop, &[], SMALL);
    terminal.keys(":sort f\r");
    terminal.shows("FAILED↓");
    terminal.keys(":/user/ti\t\r");
    terminal.shows("1 of 64 queued");
    terminal.keys(ESC);
    terminal.shows("FAILED↓");
    terminal.keys(":nonsense\r");
    terminal.shows("unknown command");
    terminal.keys("?");
    terminal.shows("sort by queued, rate");
    terminal.keys("x");
    terminal.hides("sort by queued, rate");
    terminal.keys(":quit\r");
    assert_eq!(terminal.end(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn interval_and_freeze_are_obeyed() {
    let shop = Shop::open([]);
    let till = shop.stuck("till", 1).await;
    let mut terminal = top(&shop, &[], SMALL);
    terminal.keys("+");
    terminal.shows("every 500 ms");
    terminal.keys("-");
    terminal.shows("every 250 ms");
    terminal.keys(" ");
    terminal.shows("frozen");
    let mut client = Client::connect(shop.socket()).await.unwrap();
    let requests = client.hello().stats.requests;
    (0..5).for_each(|_| till.tell(Job::Note).unwrap());
    terminal.keys("?");
    terminal.shows("select another row");
    terminal.keys("?");
    let frozen = terminal.hides("select another row");
    assert!(frozen.contains("1 queued in"), "{frozen}");
    // What would be asked at once otherwise.
    terminal.keys("2");
    terminal.hides("queued in");
    terminal.keys("3");
    terminal.hides("QUEUED");
    terminal.keys("F");
    terminal.shows("FAILED↓");
    terminal.keys("Q");
    terminal.shows("QUEUED↓");
    assert_eq!(client.refresh_hello().await.unwrap().stats.requests, requests + 1, "only this one");
    terminal.keys(" ");
    terminal.shows("6 queued in");
}
