//! The rows of the table: which workloads each compares, and what it must reach.

use std::fmt::Write as _;

/// A row of the table and of the picture.
pub struct Row {
    pub title: &'static str,
    /// The workload in the shape that is cheapest to measure.
    pub plain: Option<&'static str>,
    /// The workload as programs use it. The goal applies to it.
    pub used: &'static str,
    /// What the ratio to the floor must not exceed.
    pub goal: f64,
}

const fn row(title: &'static str, plain: &'static str, used: &'static str, goal: f64) -> Row {
    Row { title, plain: Some(plain), used, goal }
}

const fn only(title: &'static str, used: &'static str, goal: f64) -> Row {
    Row { title, plain: None, used, goal }
}

/// All rows, in the order of the table.
pub const ROWS: &[Row] = &[
    row("tell, 4 senders, unbounded", "actor.tell_4senders", "actor.tell_4senders_main", 0.25),
    row("tell, 1 sender, bounded 1,024", "actor.tell_bounded1024", "actor.tell_bounded1024_main", 0.3),
    row("tell from an outside thread", "actor.tell_unbounded_outside", "actor.tell_outside_main", 0.4),
    row("ring of 1,000, named", "actor.ring1000", "actor.ring1000_named", 0.8),
    row("spawn 1,000, stop all, await all", "actor.spawn", "actor.spawn1000", 0.9),
    row("the same with names", "actor.spawn_named", "actor.spawn1000_named", 1.0),
    row("restart, one at a time, error", "actor.restart_error", "actor.restart_error_awaited", 0.7),
    row("restart, one at a time, panic", "actor.restart_panic", "actor.restart_panic_awaited", 0.8),
    row("group of 128, fed while read", "group.128", "group.128_joined", 0.45),
    row("group of 10,000, fed while read", "group.10k", "group.10k_joined", 0.45),
    row("the same with a limit of 4", "group.10k_max4", "group.10k_max4_joined", 0.6),
    row("graph of 10 nodes, a node", "graph.linear10", "graph.owned_linear10", 1.4),
    row("graph of 100 nodes, a node", "graph.linear100", "graph.owned_linear100", 1.2),
    row("loop of 10,000, a turn", "graph.loop10k", "graph.owned_loop10k", 1.5),
    row("fan-out of 8 with a merge, a run", "graph.fanout8", "graph.owned_fanout8", 2.5),
    row("durable step, SQLite, 1 run", "graph.checkpoint_one", "graph.checkpoint_one_steady", 1.15),
    row("durable step, SQLite, 64 runs", "graph.checkpoint_64", "graph.checkpoint_64_steady", 0.08),
    only("durable step, PostgreSQL, 1 run", "graph.postgres_one", 1.0),
    only("durable step, PostgreSQL, 64 runs", "graph.postgres_64", 0.25),
    only("a worker's run, PostgreSQL", "worker.claims", 2.5),
    only("step beside durare, 1 run", "postgres.steps_1", 1.0),
    only("step beside durare, 16 runs", "postgres.steps_16", 0.167),
    only("step beside durare, 64 runs", "postgres.steps_64", 0.167),
];

/// The first peer that a ratio is computed against: the floor of `pleach-bench`, or durare.
const FLOORS: [&str; 2] = ["tokio", "durare"];

/// One JSON line.
pub struct Figure {
    pub workload: String,
    pub peer: String,
    pub ns: f64,
    pub ratio: Option<f64>,
}

impl Figure {
    /// Reads a line of the form that `pleach-bench` writes.
    pub fn parse(line: &str) -> Option<Self> {
        let value = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
            rest.split([',', '}']).next().map(|value| value.trim().trim_matches('"'))
        };
        Some(Self {
            workload: value("workload")?.to_string(),
            peer: value("peer")?.to_string(),
            ns: value("ns_per_op")?.parse().ok()?,
            ratio: value("ratio_to_floor")?.parse().ok(),
        })
    }
}

/// The workloads of all rows that `pleach-bench` runs.
pub fn workloads() -> impl Iterator<Item = &'static str> {
    let all = ROWS.iter().flat_map(|row| row.plain.into_iter().chain([row.used]));
    all.filter(|workload| !workload.starts_with("postgres."))
}

/// What was measured for a workload.
pub struct Measured<'a> {
    pub floor_ns: f64,
    pub pleach_ns: f64,
    pub pleach: f64,
    /// The fastest peer that is neither pleach nor the floor.
    pub best: Option<(&'a str, f64)>,
}

/// Finds the figures of a workload. A peer in another process has no ratio of its own; it is
/// compared with the median of the floor.
pub fn measured<'a>(workload: &str, figures: &'a [Figure]) -> Option<Measured<'a>> {
    let of = |peer: &str| figures.iter().find(|figure| figure.workload == workload && figure.peer == peer);
    let floor = FLOORS.iter().find_map(|floor| of(floor))?;
    let pleach = of("pleach")?;
    let others = figures.iter().filter(|figure| figure.workload == workload);
    let others = others.filter(|figure| figure.peer != "pleach" && figure.peer != floor.peer);
    let ratios = others.map(|figure| (figure.peer.as_str(), figure.ratio.unwrap_or(figure.ns / floor.ns)));
    Some(Measured {
        floor_ns: floor.ns,
        pleach_ns: pleach.ns,
        pleach: pleach.ratio.unwrap_or(pleach.ns / floor.ns),
        best: ratios.min_by(|(_, one), (_, other)| one.total_cmp(other)),
    })
}

/// Makes the table in Markdown.
pub fn table(rows: &[Row], figures: &[Figure]) -> String {
    let mut text =
        "| what | plain shape | floor | pleach, as used | goal | best peer |\n|---|---|---|---|---|---|\n".to_string();
    for row in rows {
        let plain = row.plain.and_then(|workload| measured(workload, figures));
        let plain = plain.map_or("–".into(), |plain| format!("{} ×{:.2}", time(plain.pleach_ns), plain.pleach));
        let used = measured(row.used, figures);
        let floor = used.as_ref().map_or("–".into(), |used| time(used.floor_ns));
        let pleach = used.as_ref().map_or("not measured".into(), |used| {
            let missed = if used.pleach > row.goal { ", missed" } else { "" };
            format!("{} ×{:.2}{missed}", time(used.pleach_ns), used.pleach)
        });
        let best = used.and_then(|used| used.best).map_or("–".into(), |(peer, ratio)| format!("{peer} ×{ratio:.2}"));
        let _ = writeln!(text, "| {} | {plain} | {floor} | {pleach} | {} | {best} |", row.title, row.goal);
    }
    text
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 10_000.0 => format!("{ns:.0} ns"),
        ns => format!("{:.1} µs", ns / 1_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"{"workload":"a.used","peer":"tokio","ns_per_op":100.0,"ratio_to_floor":1.0}
{"workload":"a.used","peer":"pleach","ns_per_op":30.0,"ratio_to_floor":0.31}
{"workload": "a.used", "peer": "go channels", "ns_per_op": 50, "ratio_to_floor": null}
{"workload":"a.used","peer":"kanal","ns_per_op":60.0,"ratio_to_floor":0.6}
"#;

    fn figures() -> Vec<Figure> {
        LINES.lines().filter_map(Figure::parse).collect()
    }

    #[test]
    fn a_peer_without_a_ratio_is_compared_with_the_floor() {
        let figures = figures();
        let measured = measured("a.used", &figures).expect("a floor and pleach");
        assert_eq!(measured.best, Some(("go channels", 0.5)));
    }

    #[test]
    fn a_table_names_missed_goals_and_missing_figures() {
        let rows = [row("a", "a.plain", "a.used", 0.3), only("b", "b.used", 1.0)];
        let table = table(&rows, &figures());
        assert!(table.ends_with(
            "| a | – | 100 ns | 30 ns ×0.31, missed | 0.3 | go channels ×0.50 |\n| b | – | – | not measured | 1 | – |\n"
        ));
    }
}
