//! Makes `docs/images/demo.svg`: runs `pleach demo` in a terminal, and draws its screen as an SVG
//! of text. `cargo xtask picture` builds the command and runs this.

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The size of the terminal.
const COLUMNS: u16 = 118;
const ROWS: u16 = 34;

/// What the screen must show, and the key that is typed then. The worker is killed when some orders
/// were shipped. The picture is taken when an actor restarts in the next worker.
const SCRIPT: [(&str, &str); 4] =
    [("order-5 was shipped", "9"), ("after their last step on disk", ""), ("order-9 was shipped", ""), ("back in 0.", "")];

/// How long one part of the script may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The size of a cell, and of the space around all cells.
const CELL: (f64, f64) = (8.4, 18.0);
const EDGE: f64 = 12.0;

/// Background, text, and the eight colours of a terminal.
const GROUND: &str = "#10131a";
const TEXT: &str = "#d5d8de";
const COLOURS: [&str; 8] = ["#10131a", "#e06c75", "#7ec67e", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d5d8de"];

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    let [_, program, file] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: picture PROGRAM FILE".into());
    };
    let screen = captured(&std::path::absolute(program)?)?;
    let file = PathBuf::from(file);
    std::fs::write(&file, svg(&screen))?;
    println!("wrote {}", file.display());
    Ok(())
}

/// Runs the show and returns the screen at the end of the script.
fn captured(program: &Path) -> Fallible<vt100::Screen> {
    let size = PtySize { rows: ROWS, cols: COLUMNS, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size)?;
    let mut command = CommandBuilder::new(program);
    command.args(["demo", "--seed", "7"]);
    for (name, value) in [("TERM", "xterm-256color"), ("LC_ALL", "C.UTF-8"), ("NO_COLOR", "")] {
        command.env(name, value);
    }
    let mut child = pair.slave.spawn_command(command)?;
    let (sender, chunks) = channel();
    let (mut reader, mut keys) = (pair.master.try_clone_reader()?, pair.master.take_writer()?);
    std::thread::spawn(move || {
        let mut chunk = [0; 16_384];
        while let Ok(count @ 1..) = reader.read(&mut chunk) {
            if sender.send(chunk[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut parser = vt100::Parser::new(ROWS, COLUMNS, 0);
    for (text, key) in SCRIPT {
        wait_for(text, &mut parser, &chunks)?;
        keys.write_all(key.as_bytes())?;
    }
    let screen = parser.screen().clone();
    keys.write_all(b"q")?;
    child.wait()?;
    Ok(screen)
}

fn wait_for(text: &str, parser: &mut vt100::Parser, chunks: &Receiver<Vec<u8>>) -> Fallible<()> {
    let until = Instant::now() + LIMIT;
    while !parser.screen().contents().contains(text) {
        let left = until.saturating_duration_since(Instant::now());
        let chunk = chunks.recv_timeout(left);
        parser.process(&chunk.map_err(|_| format!("the show does not say {text:?}: {}", parser.screen().contents()))?);
    }
    Ok(())
}

/// How a run of cells looks.
#[derive(Clone, PartialEq, Eq)]
struct Look {
    front: &'static str,
    back: &'static str,
    is_bold: bool,
    is_dim: bool,
}

impl Look {
    fn of(cell: &vt100::Cell) -> Self {
        let shade = |colour, default| match colour {
            vt100::Color::Idx(number) => COLOURS[usize::from(number) % COLOURS.len()],
            _ => default,
        };
        let (front, back) = (shade(cell.fgcolor(), TEXT), shade(cell.bgcolor(), GROUND));
        let (front, back) = if cell.inverse() { (back, front) } else { (front, back) };
        Self { front, back, is_bold: cell.bold(), is_dim: cell.dim() }
    }
}

fn svg(screen: &vt100::Screen) -> String {
    let (width, height) = (f64::from(COLUMNS) * CELL.0 + 2.0 * EDGE, f64::from(ROWS) * CELL.1 + 2.0 * EDGE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-size=\"14\" \
         font-family=\"ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace\">\n\
         <title>pleach demo: the tree after a kill -9 of the worker process</title>\n\
         <style>text{{white-space:pre}}.b{{font-weight:bold}}.d{{opacity:.55}}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{GROUND}\"/>\n"
    );
    for row in 0..ROWS {
        let mut column = 0;
        while let Some((text, look)) = run_of(screen, row, column) {
            write_run(&mut svg, row, column, &text, &look);
            column += u16::try_from(text.chars().count()).unwrap_or(COLUMNS);
        }
    }
    svg + "</svg>\n"
}

/// Returns the longest text from a cell on that has one look. `None` behind the last cell.
fn run_of(screen: &vt100::Screen, row: u16, first: u16) -> Option<(String, Look)> {
    let cell = |column| screen.cell(row, column).map(|cell| (cell.contents(), Look::of(cell)));
    let (_, look) = cell(first)?;
    let cells = (first..COLUMNS).map_while(cell).take_while(|(_, other)| *other == look);
    let text = cells.map(|(text, _)| if text.is_empty() { " ".to_string() } else { text.to_string() });
    Some((text.collect(), look))
}

fn write_run(svg: &mut String, row: u16, column: u16, text: &str, look: &Look) {
    let columns = text.chars().count() as f64 * CELL.0;
    let (x, y) = (EDGE + f64::from(column) * CELL.0, EDGE + f64::from(row) * CELL.1);
    // Writing to a string cannot fail.
    if look.back != GROUND {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{columns:.1}\" height=\"{}\" fill=\"{}\"/>",
            CELL.1, look.back
        );
    }
    let shown = text.trim();
    if shown.is_empty() {
        return;
    }
    let before = text.chars().take_while(|character| *character == ' ').count();
    let class = match (look.is_bold, look.is_dim) {
        (true, true) => " class=\"b d\"",
        (true, false) => " class=\"b\"",
        (false, true) => " class=\"d\"",
        (false, false) => "",
    };
    let length = shown.chars().count() as f64 * CELL.0;
    let escaped = shown.replace('&', "&amp;").replace('<', "&lt;");
    // The length keeps the columns straight in any font.
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{length:.1}\" fill=\"{}\"{class}>{escaped}</text>",
        x + before as f64 * CELL.0,
        y + CELL.1 * 0.76,
        look.front
    );
}
