//! Prints the figures of a benchmark as tables and as JSON lines.

use std::fmt::Write;

/// One figure of one peer. The value is in ns per operation, or in the unit of the workload.
pub struct Figure {
    pub workload: &'static str,
    pub peer: &'static str,
    pub value: f64,
    /// `None` if the workload has no floor, or the floor is zero.
    pub ratio: Option<f64>,
    /// Whether the samples vary so much that their median says little. Always false for counts.
    pub is_unsteady: bool,
}

/// Writes one JSON object per line. The value is called `ns_per_op` whatever its unit, so that all
/// lines have the same fields.
pub fn json_lines(figures: &[Figure]) -> String {
    let mut lines = String::new();
    for figure in figures {
        let ratio = figure.ratio.map_or("null".into(), |ratio| format!("{ratio:.4}"));
        writeln!(
            lines,
            r#"{{"workload":"{}","peer":"{}","ns_per_op":{:.4},"ratio_to_floor":{ratio}}}"#,
            figure.workload, figure.peer, figure.value,
        )
        .expect("writing to a string does not fail");
    }
    lines
}

/// The kind of a workload: its name up to the dot.
fn kind(figure: &Figure) -> &str {
    figure.workload.split('.').next().unwrap_or_default()
}

/// Makes one table per kind of workload, because each kind has its own peers.
pub fn tables(figures: &[Figure]) -> String {
    figures.chunk_by(|a, b| kind(a) == kind(b)).map(table).collect::<Vec<_>>().join("\n")
}

/// Makes a Markdown table with a row per workload and a column per peer. A cell has the value, the
/// ratio after an ×, and a `~` if the samples varied too much.
fn table(figures: &[Figure]) -> String {
    let mut workloads: Vec<&str> = Vec::new();
    let mut peers: Vec<&str> = Vec::new();
    for figure in figures {
        if !workloads.contains(&figure.workload) {
            workloads.push(figure.workload);
        }
        if !peers.contains(&figure.peer) {
            peers.push(figure.peer);
        }
    }
    let mut rows = vec![header(&peers)];
    for workload in workloads {
        let mut row = vec![format!("{workload} ({})", unit(workload))];
        for peer in &peers {
            let of_peer = |figure: &&Figure| figure.workload == workload && figure.peer == *peer;
            row.push(figures.iter().find(of_peer).map_or("–".into(), cell));
        }
        rows.push(row);
    }
    aligned(&rows)
}

fn header(peers: &[&str]) -> Vec<String> {
    let mut header = vec!["workload".to_string()];
    header.extend(peers.iter().map(|peer| peer.to_string()));
    header
}

fn unit(workload: &str) -> &'static str {
    match workload.split_once('.').map_or(workload, |(_, name)| name) {
        name if name.starts_with("memory") => "bytes",
        name if name.starts_with("allocs") => "allocations",
        name if name.starts_with("instr") => "instructions",
        _ => "ns",
    }
}

fn cell(figure: &Figure) -> String {
    let value = match figure.value {
        value if value < 10.0 => format!("{value:.2}"),
        value => format!("{value:.0}"),
    };
    let mark = if figure.is_unsteady { " ~" } else { "" };
    match figure.ratio {
        Some(ratio) => format!("{value} ×{ratio:.2}{mark}"),
        None => format!("{value}{mark}"),
    }
}

fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..rows[0].len()).filter_map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            write!(text, "| {cell:<width$} ").expect("writing to a string does not fail");
        }
        text.push_str("|\n");
        if index == 0 {
            for width in &widths {
                write!(text, "|{}", "-".repeat(width + 2)).expect("writing to a string does not fail");
            }
            text.push_str("|\n");
        }
    }
    text
}
