//! Every picture of `pleach top`, at the sizes that matter. `crate::screen` says how to look at
//! them.

use crate::screen::Terminal;
use crate::shop::{Job, Shop};
use crate::top::{ESC, top};
use pleach::inspect::{HealthReport, InspectAction, Problem};
use pleach::prelude::*;

/// A shop with a bit of everything: full mailboxes, waits, restarts, load.
async fn lively(shop: &Shop) -> HealthReport {
    let bank = shop.stuck("bank", 63).await;
    while bank.tell(Job::Note).is_ok() {}
    for (team, size) in [("packing", 9), ("shipping", 6), ("billing", 4)] {
        let workers = shop.system.supervisor(team, OneForOne::new()).unwrap();
        for index in 0..size {
            let worker = workers.spawn(&format!("table-{index}"), shop.props()).unwrap();
            worker.tell(if index % 3 == 0 { Job::Ask(bank.clone()) } else { Job::Hold }).unwrap();
            (0..index * index % 61).for_each(|_| worker.tell(Job::Note).unwrap());
        }
        let till = workers.spawn("till", shop.props()).unwrap();
        if team == "shipping" {
            till.tell(Job::Fail("no label for order 4711".into())).unwrap();
            till.tell(Job::Fail("the printer is out of paper".into())).unwrap();
        }
    }
    for (name, period) in [("ledger", 40), ("stock", 90), ("prices", 17), ("mail", 140)] {
        let busy = shop.system.spawn_started(name, shop.props()).await.unwrap();
        tokio::spawn(load(busy, period));
    }
    bank.any().report_health(Problem::new("vault", "the vault answers slowly").advice("look at its handler"))
}

/// Sends more and fewer messages, until the actor ends.
async fn load(actor: ActorRef<Job>, period: u64) {
    let mut clock = tokio::time::interval(Duration::from_millis(10));
    for turn in 0_u64.. {
        clock.tick().await;
        for _ in 0..(turn % period) / 4 + 2 {
            if actor.tell(Job::Note).is_err() && actor.any().exit().is_some() {
                return;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_of_all_sizes_show_their_parts() {
    let shop = Shop::open([InspectAction::Restart, InspectAction::Suspend, InspectAction::Resume, InspectAction::Stop]);
    let _report = lively(&shop).await;
    for (columns, rows) in [(60, 20), (80, 24), (120, 40), (200, 60)] {
        let mut terminal = top(&shop, &["--write"], (columns, rows));
        let picture = |terminal: &Terminal, name: &str| terminal.picture(&format!("top_{columns}x{rows}_{name}"));
        terminal.keys("jj");
        terminal.selects_row(7);
        // A trend needs some answers.
        let trend = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];
        terminal
            .shows_when("a trend", |screen| columns < 80 || screen.matches(trend).count() > if columns < 120 { 6 } else { 24 });
        picture(&terminal, "1_list");
        terminal.keys("g/packing/table-6\r");
        terminal.shows("1 matching");
        terminal.keys("\r");
        terminal.shows("asks /user/bank");
        picture(&terminal, "2_detail");
        terminal.keys("r");
        terminal.shows("Restart /user/packing/table-6?");
        picture(&terminal, "3_confirm");
        terminal.keys("nt");
        terminal.selects("table-6");
        picture(&terminal, "4_tree");
        terminal.keys("3");
        terminal.shows("the vault answers slowly");
        picture(&terminal, "5_problems");
        terminal.keys("1");
        terminal.keys(ESC);
        terminal.keys(":so");
        terminal.shows("time in the handler");
        picture(&terminal, "6_palette");
        terminal.keys(ESC);
        terminal.keys("?");
        terminal.shows("select another row");
        picture(&terminal, "7_help");
    }
}
