//! Draws the table: one line per row, on a logarithmic scale of times relative to the floor.
//!
//! The picture has its own background and colours for light and dark, so that it is readable on
//! every page.

use super::rows::{Figure, Row, measured};
use std::fmt::Write as _;

const WIDTH: f64 = 1040.0;
const TOP: f64 = 84.0;
const LINE: f64 = 26.0;

/// Where the scale begins and ends, and the powers of two there.
const LEFT: f64 = 270.0;
const RIGHT: f64 = 700.0;
const LEAST: i32 = -5;
const MOST: i32 = 4;

const STYLE: &str = "\
text{font:13px system-ui,'DejaVu Sans',sans-serif;fill:#1f2328}.h{font-size:16px;font-weight:600}.d{fill:#59636e}
.b{fill:#fff}.l{stroke:#d8dee4}.f{stroke:#59636e;stroke-width:1.5}.p{fill:#0969da}.o{fill:none;stroke:#0969da;stroke-width:1.5}
.x{fill:#b35900}.g{stroke:#1a7f37;stroke-width:3}.w{fill:#d1242f}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.d{fill:#9198a1}.b{fill:#0d1117}.l{stroke:#30363d}.f{stroke:#9198a1}
.p{fill:#4493f8}.o{stroke:#4493f8}.x{fill:#e3a04b}.g{stroke:#3fb950}.w{fill:#ff7b72}}";

/// Draws the rows that were measured.
pub fn draw(rows: &[Row], figures: &[Figure]) -> String {
    let measured: Vec<_> = rows.iter().filter_map(|row| Some((row, measured(row.used, figures)?))).collect();
    let bottom = TOP + LINE * measured.len() as f64;
    let mut svg = head(bottom);
    for (index, (row, used)) in measured.into_iter().enumerate() {
        let y = TOP + LINE * (index as f64 + 0.5);
        text(&mut svg, "", 16.0, y, row.title);
        let goal = place(row.goal);
        let _ = writeln!(svg, r#"<path class="g" d="M{goal:.1} {:.1}v16"/>"#, y - 8.0);
        if let Some((_, ratio)) = used.best {
            let x = place(ratio);
            let _ = writeln!(svg, r#"<path class="x" d="M{x:.1} {:.1}l5 5l-5 5l-5-5z"/>"#, y - 5.0);
        }
        if let Some(plain) = row.plain.and_then(|workload| super::rows::measured(workload, figures)) {
            let _ = writeln!(svg, r#"<circle class="o" cx="{:.1}" cy="{y:.1}" r="4.5"/>"#, place(plain.pleach));
        }
        let _ = writeln!(svg, r#"<circle class="p" cx="{:.1}" cy="{y:.1}" r="5.5"/>"#, place(used.pleach));
        let class = if used.pleach > row.goal { "w" } else { "" };
        text(&mut svg, class, RIGHT + 24.0, y, &format!("×{:.2}", used.pleach));
        text(&mut svg, "d", RIGHT + 78.0, y, &format!("goal {}", row.goal));
        if let Some((peer, ratio)) = used.best {
            text(&mut svg, "d", RIGHT + 156.0, y, &format!("{peer} ×{ratio:.2}"));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The background, the title, the legend, and the lines of the scale.
fn head(bottom: f64) -> String {
    let height = bottom + 16.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\">\n\
        <title>pleach beside its floors and peers: time for one operation</title>\n<style>{STYLE}</style>\n\
        <rect class=\"b\" width=\"100%\" height=\"100%\" rx=\"8\"/>\n"
    );
    text(&mut svg, "h", 16.0, 22.0, "Time of one operation, as a multiple of the floor (less is better)");
    svg.push_str("<circle class=\"p\" cx=\"22\" cy=\"47\" r=\"5.5\"/><circle class=\"o\" cx=\"226\" cy=\"47\" r=\"4.5\"/>");
    svg.push_str("<path class=\"g\" d=\"M382 39v16\"/><path class=\"x\" d=\"M450 42l5 5l-5 5l-5-5z\"/>\n");
    text(&mut svg, "", 34.0, 47.0, "pleach, as programs use it");
    text(&mut svg, "", 238.0, 47.0, "pleach, plain shape");
    text(&mut svg, "", 392.0, 47.0, "goal");
    text(&mut svg, "", 462.0, 47.0, "best peer");
    for power in LEAST..=MOST {
        let ratio = f64::from(power).exp2();
        let x = place(ratio);
        let class = if power == 0 { "f" } else { "l" };
        let _ = writeln!(svg, r#"<path class="{class}" d="M{x:.1} {:.1}V{bottom:.1}"/>"#, TOP - 4.0);
        let label = match power {
            0 => "floor".to_string(),
            1.. => format!("{ratio}"),
            _ => format!("1/{}", 1.0 / ratio),
        };
        let _ = writeln!(svg, r#"<text class="d" text-anchor="middle" x="{x:.1}" y="{:.1}">{label}</text>"#, TOP - 10.0);
    }
    svg
}

/// Where a ratio is on the scale. One outside of it is drawn at its end.
fn place(ratio: f64) -> f64 {
    let (least, most) = (f64::from(LEAST), f64::from(MOST));
    let power = ratio.log2().clamp(least, most);
    LEFT + (power - least) / (most - least) * (RIGHT - LEFT)
}

/// Adds a text that is centred on a line.
fn text(svg: &mut String, class: &str, x: f64, y: f64, text: &str) {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, r#"<text class="{class}" x="{x:.1}" y="{:.1}">{escaped}</text>"#, y + 4.5);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_logarithmic_and_bounded() {
        assert_eq!(place(1.0 / 32.0), LEFT);
        assert_eq!(place(16.0), RIGHT);
        assert_eq!(place(1_000.0), RIGHT);
        assert!((place(2.0) - place(1.0) - (place(1.0) - place(0.5))).abs() < 1e-9);
    }

    #[test]
    fn a_missed_goal_is_marked() {
        let lines = [
            r#"{"workload":"a","peer":"tokio","ns_per_op":100.0,"ratio_to_floor":1.0}"#,
            r#"{"workload":"a","peer":"pleach","ns_per_op":50.0,"ratio_to_floor":0.5}"#,
        ];
        let figures: Vec<Figure> = lines.iter().filter_map(|line| Figure::parse(line)).collect();
        let drawn = |goal| draw(&[Row { title: "a < b", plain: None, used: "a", goal }], &figures);
        assert!(drawn(0.4).contains(r#"class="w" x="724.0""#));
        assert!(!drawn(0.5).contains(r#"class="w" x"#));
        assert!(drawn(0.5).contains("a &lt; b"));
    }
}
