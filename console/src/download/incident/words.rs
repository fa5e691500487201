//! Values of views as people read them, and the small parts of a page.

use super::markup::Markup;
use serde_json::Value;

/// The most characters of a name that is not broken into lines.
const NAME_MAX: usize = 44;

/// Returns a text, a number or a word. `None` for null, and for what has parts.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(word) => Some(if *word { "yes" } else { "no" }.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the entries of a list. Anything else has none.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Begins with a capital letter.
pub(super) fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// Returns a count with its noun: 1 run, 2 runs.
pub(super) fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns a duration in microseconds as people say it.
pub(super) fn duration(microseconds: &Value) -> Option<String> {
    let us = microseconds.as_u64()?;
    let (seconds, ms) = (us / 1_000_000, us / 1_000);
    Some(match seconds {
        0 if ms == 0 => format!("{us} µs"),
        0 => format!("{ms} ms"),
        1..60 => format!("{}.{} s", seconds, ms % 1_000 / 100),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    })
}

/// Writes two units; a second one of zero is left out.
fn two(first: u64, unit: &str, second: u64, smaller: &str) -> String {
    if second == 0 { format!("{first} {unit}") } else { format!("{first} {unit} {second} {smaller}") }
}

/// Returns a size as people say it.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes / 1_024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

/// Returns names with values; those without a value are left out.
pub(super) fn facts(known: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Markup {
    let fact = |(name, value): (&'static str, String)| {
        Markup::element("div", "", [Markup::of("dt", "", name), Markup::of("dd", "", value)])
    };
    let facts: Vec<Markup> = known.into_iter().filter_map(|(name, value)| Some(fact((name, value?)))).collect();
    if facts.is_empty() { Markup::default() } else { Markup::element("dl", "facts", facts) }
}

/// Returns sentences as a list; nothing if there are none.
pub(super) fn sentences(class: &'static str, texts: &[Value]) -> Markup {
    let items: Vec<Markup> =
        texts.iter().filter_map(text).map(|text| Markup::element("li", "", [Markup::lines(&text)])).collect();
    if items.is_empty() { Markup::default() } else { Markup::element("ul", class, items) }
}

/// Returns a table without its empty columns; nothing if it has no rows.
pub(super) fn table(heads: &[&'static str], rows: Vec<Vec<Markup>>) -> Markup {
    if rows.is_empty() {
        return Markup::default();
    }
    let is_used = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()));
    let used: Vec<bool> = (0..heads.len()).map(is_used).collect();
    let head = heads.iter().zip(&used).filter(|(_, is_used)| **is_used);
    let head = head.map(|(head, _)| Markup::with("th", "", &[("scope", "col")], [Markup::text(head)]));
    let cells = |row: Vec<Markup>| {
        let cells = row.into_iter().zip(&used).filter(|(_, is_used)| **is_used);
        Markup::element("tr", "", cells.map(|(cell, _)| Markup::element("td", "", [cell])))
    };
    let head = Markup::element("thead", "", [Markup::element("tr", "", head)]);
    let body = Markup::element("tbody", "", rows.into_iter().map(cells));
    // A wide table scrolls by itself, also by keys.
    let attributes = [("tabindex", "0"), ("role", "region"), ("aria-label", "Table")];
    Markup::with("div", "scroll", &attributes, [Markup::element("table", "", [head, body])])
}

/// Returns a text of a table's cell.
pub(super) fn cell(value: &Value) -> Markup {
    text(value).map_or_else(Markup::default, |text| Markup::lines(&text))
}

/// Returns a time or a name, which is not broken into lines if it is short.
pub(super) fn name(value: &Value) -> Markup {
    match text(value) {
        Some(name) if name.chars().count() <= NAME_MAX => Markup::of("span", "name", time(&name)),
        Some(name) => Markup::lines(&name),
        None => Markup::default(),
    }
}

/// Returns a time in UTC without the letters that only programs need. Other texts stay as they are.
pub(super) fn time(text: &str) -> String {
    let parts = text.strip_suffix('Z').and_then(|time| time.split_once('T'));
    match parts.filter(|_| text.parse::<jiff::Timestamp>().is_ok()) {
        Some((date, time)) => format!("{date} {}", time.get(..12).unwrap_or(time)),
        None => text.to_string(),
    }
}

/// Returns a time, as [`time`] writes it.
pub(super) fn time_of(value: &Value) -> Option<String> {
    text(value).map(|text| time(&text))
}

/// Returns commands, one on each line.
pub(super) fn commands(texts: &[Value]) -> Markup {
    let mut commands: Vec<String> = texts.iter().filter_map(text).collect();
    commands.dedup();
    if commands.is_empty() { Markup::default() } else { block(&commands.join("\n")) }
}

/// Returns text of a program, such as a state.
pub(super) fn block(text: &str) -> Markup {
    let attributes = [("tabindex", "0"), ("role", "region"), ("aria-label", "Text")];
    Markup::with("pre", "", &attributes, [Markup::lines(text)])
}

/// Returns a heading inside of a section, if there is something below it.
pub(super) fn part(title: &'static str, content: Markup) -> Markup {
    if content.is_empty() { content } else { Markup::all([Markup::of("h3", "", title), content]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_and_sizes_read_as_people_say_them() {
        for (us, expected) in [
            (7_u64, "7 µs"),
            (570_603, "570 ms"),
            (21_790_704, "21.7 s"),
            (60_000_000, "1 min"),
            (125_000_000, "2 min 5 s"),
            (7_260_000_000, "2 h 1 min"),
            (90_000_000_000, "1 d 1 h"),
        ] {
            assert_eq!(duration(&json!(us)).as_deref(), Some(expected));
        }
        assert_eq!(duration(&Value::Null), None);
        assert_eq!(time("2026-11-19T13:03:23.433907Z"), "2026-11-19 13:03:23.433");
        assert_eq!([time("2026-11-19T13:03:23Z"), time("TZ")], ["2026-11-19 13:03:23", "TZ"]);
        assert_eq!([size(3), size(65_536), size(3 << 20)], ["3 B", "64 KiB", "3 MiB"]);
    }
}
