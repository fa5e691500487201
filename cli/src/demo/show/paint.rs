//! Painting the show.
//!
//! A narrow terminal has everything below each other; from [`WIDE_FROM`] columns on the orders are
//! beside the tree. What does not fit is left out from the least important on.

use super::live::{ALWAYS, HINTS, View};
use super::narrator::{name, price};
use super::orders::{OrderRow, StepState};
use super::picture::{Picture, Tone, WorkerState};
use crate::demo::folder::Places;
use crate::demo::worker::orders::STEPS;
use crate::output::table::{width_of, with_commas};
use crate::runs::quoted;
use crate::screen::text::{fit, pad, pad_left, wrap};
use crate::screen::widgets::{footer, mailbox_bar, panel, sparkline};
use crate::screen::{Canvas, CellStyle, Line, Look, Rect, Span};
use pleach::inspect::{Activity, Health, MemberInfo, MemberKind};
use pleach::store::RunStatus;
use std::time::Instant;

/// From this width on, the orders are beside the tree.
const WIDE_FROM: u16 = 116;

/// The smallest terminal that shows something useful.
const COLUMNS_MIN: u16 = 60;
const ROWS_MIN: u16 = 18;

/// How many rows the tree needs with its frame: six actors, two supervisors, two scopes.
const TREE_ROWS: u16 = 12;

/// The width of a name with its indentation.
const NAME_COLUMNS: u16 = 14;

/// Returns the actors of the shop.
pub fn actors(picture: &Picture) -> impl Iterator<Item = &MemberInfo> {
    picture.members.iter().filter(|member| member.kind == MemberKind::Actor && is_shop(member))
}

fn is_shop(member: &MemberInfo) -> bool {
    member.path.to_string().starts_with("/user/shop")
}

/// Paints everything.
pub fn paint(canvas: &mut Canvas<'_>, picture: &Picture, view: &View, places: &Places) {
    let area = canvas.area();
    if area.width < COLUMNS_MIN || area.height < ROWS_MIN {
        return canvas.line(area, format!("pleach demo needs {COLUMNS_MIN} columns and {ROWS_MIN} rows; q quits"));
    }
    let mut rest = area;
    let mut top = |rows: u16| {
        let taken = Rect { height: rows.min(rest.height), ..rest };
        rest = Rect { y: rest.y + taken.height, height: rest.height - taken.height, ..rest };
        taken
    };
    header(canvas, top(1), picture);
    let is_tall = area.height >= 30;
    // Below the tree: account and charges, the narrator, the commands, the keys.
    let below = if is_tall { 2 + 4 + 2 } else { 2 + 2 + 1 } + 1;
    let (for_tree, for_orders) = if area.width >= WIDE_FROM {
        let both = top((area.height - 1 - below).min(TREE_ROWS.max(area.height / 3)));
        let left = Rect { width: both.width * 3 / 5, ..both };
        (left, Rect { x: left.right(), width: both.width - left.width, ..both })
    } else {
        // Without the customers a small terminal has room for one more order.
        let rows = if is_tall { TREE_ROWS } else { TREE_ROWS - 1 };
        let tree = top(rows.min(area.height - 1 - below - 3));
        let room = area.height - 1 - below - tree.height;
        (tree, top(room.min(8)))
    };
    tree(canvas, for_tree, picture, view);
    orders(canvas, for_orders, picture);
    account(canvas, top(2), picture);
    let keys = Rect { y: area.bottom() - 1, height: 1, ..area };
    let commands_rows = if is_tall { 2 } else { 1 };
    let commands = Rect { y: keys.y - commands_rows, height: commands_rows, ..area };
    let story = Rect { height: commands.y.saturating_sub(rest.y), ..rest };
    narrator(canvas, story, picture, is_tall);
    tools(canvas, commands, places, picture.console.as_deref());
    footer(canvas, keys, &HINTS, &ALWAYS);
}

fn header(canvas: &mut Canvas<'_>, area: Rect, picture: &Picture) {
    let (look, theme) = (canvas.look().clone(), canvas.look().theme);
    let dot = || Span::styled(format!(" {} ", look.glyphs.dot), theme.weak);
    let mut spans = vec![Span::styled(" pleach demo ", theme.strong)];
    let (badge, style) = match picture.worker {
        WorkerState::Dead => (format!(" {} worker is dead ", look.glyphs.bad), theme.bad_badge),
        WorkerState::Starting => (format!(" worker {} starts ", picture.pid), theme.warn_badge),
        WorkerState::Running if picture.is_paused => (" paused ".to_string(), theme.warn_badge),
        WorkerState::Running => health(picture, &look),
    };
    spans.push(Span::styled(badge, style));
    let is_wide = area.width >= 100;
    let unit = if is_wide { "messages/s" } else { "msg/s" };
    spans.push(Span::raw(format!(" {:.0} {unit}", picture.rate())));
    if is_wide {
        let columns = usize::from(area.width - 94).min(picture.rates.len());
        spans.extend([Span::raw(" "), sparkline(picture.rates.iter().copied(), columns, &look)]);
    }
    let account = &picture.account;
    spans.extend([dot(), Span::raw(super::narrator::counted(account.restarts, "restart"))]);
    let dead = super::narrator::counted(account.counts.dead_lettered, "dead letter");
    spans.extend([dot(), Span::styled(dead, if account.counts.dead_lettered > 0 { theme.warn } else { CellStyle::default() })]);
    canvas.line(area, Line::from(spans));
    let seconds = picture.begun.elapsed().as_secs();
    canvas.line_right(area, Span::styled(format!(" {:02}:{:02} ", seconds / 60, seconds % 60), theme.weak));
}

fn health(picture: &Picture, look: &Look) -> (String, CellStyle) {
    match &picture.health {
        Some(Health::Degraded(_)) => (format!(" {} degraded ", look.glyphs.warn), look.theme.warn_badge),
        Some(Health::Down) => (format!(" {} down ", look.glyphs.bad), look.theme.bad_badge),
        _ => (format!(" {} healthy ", look.glyphs.good), look.theme.good_badge),
    }
}

fn tree(canvas: &mut Canvas<'_>, area: Rect, picture: &Picture, view: &View) {
    let title = match (picture.worker, &picture.health) {
        (WorkerState::Dead, _) => "the tree is gone".to_string(),
        (_, Some(Health::Degraded(reasons))) if !reasons.is_empty() => reasons[0].to_string().replace("/user/shop/", ""),
        _ => "the tree: mailboxes, messages per second, restarts".to_string(),
    };
    let inside = panel(canvas, area, &title);
    if picture.worker == WorkerState::Dead {
        return gone(canvas, inside, picture);
    }
    let now = Instant::now();
    let has_room = inside.height + 2 >= TREE_ROWS;
    let shown = picture.members.iter().filter(|member| is_shown(member, has_room));
    for (row, member) in (inside.top()..inside.bottom()).zip(shown) {
        let place = Rect { y: row, height: 1, ..inside };
        let path = member.path.to_string();
        let line = member_line(member, picture, usize::from(inside.width), path == view.chosen, canvas.look());
        canvas.line(place, line);
        if picture.is_flashing(now, &path) {
            canvas.style(Rect { width: place.width.min(NAME_COLUMNS), ..place }, canvas.look().theme.flash);
        }
    }
}

/// Shows instead of the tree that its process was killed.
fn gone(canvas: &mut Canvas<'_>, area: Rect, picture: &Picture) {
    let theme = canvas.look().theme;
    let lines = [
        Line::default(),
        Line::from(Span::styled(format!("  worker process {} was killed", picture.pid), theme.bad)),
        Line::default(),
        Line::from("  Its actors and their mailboxes were in its memory."),
        Line::from("  The orders are in the store, after their last committed step."),
        Line::from(Span::styled("  Another process starts now and takes them over.", theme.strong)),
    ];
    canvas.lines(area, lines);
}

/// Whether a member has a row: not the tasks of the customers and of the run worker, nor a scope
/// that exists only while a supervisor restarts its children.
fn is_shown(member: &MemberInfo, has_room: bool) -> bool {
    let path = member.path.to_string();
    let is_lasting = matches!(member.kind, MemberKind::Actor | MemberKind::Supervisor);
    (is_shop(member) && is_lasting) || path == "/user/orders" || (has_room && path == "/user/customers")
}

fn member_line(member: &MemberInfo, picture: &Picture, width: usize, is_chosen: bool, look: &Look) -> Line<'static> {
    let theme = look.theme;
    let path = member.path.to_string();
    let level = path.matches('/').count().saturating_sub(2);
    let columns = usize::from(NAME_COLUMNS);
    let mark = if is_chosen { look.glyphs.pointer } else { " " };
    let label = format!("{}{}", "  ".repeat(level), name(&path));
    let style = if is_chosen { theme.strong.patch(theme.accent) } else { theme.strong };
    let mut spans = vec![Span::styled(mark, theme.accent), Span::styled(pad(&fit(&label, columns - 1, look), columns), style)];
    let Some(actor) = &member.actor else {
        spans.push(Span::styled(scope_text(member, picture), theme.weak));
        return Line::from(spans);
    };
    let bar = width.saturating_sub(60).clamp(6, 40);
    spans.extend(mailbox_bar(actor.queued, actor.capacity, bar, look));
    let filled = format!("{}/{}", actor.queued, actor.capacity.unwrap_or_default());
    spans.push(Span::raw(pad_left(&filled, 8)));
    spans.push(Span::raw(format!(" {:>4.0}/s  ", picture.rate_of(&path))));
    let restarts =
        if actor.incarnation == 0 { String::new() } else { super::narrator::counted(actor.incarnation.into(), "restart") };
    let (state, style) = state_text(member, look);
    spans.push(Span::styled(pad(&state, 16), style));
    spans.push(Span::styled(restarts, theme.weak));
    Line::from(spans)
}

/// Describes a member without a mailbox.
fn scope_text(member: &MemberInfo, picture: &Picture) -> String {
    match (member.kind, name(&member.path.to_string())) {
        (MemberKind::Supervisor, "payments") => "supervisor: gives up after 3 restarts in 5 s".to_string(),
        (MemberKind::Supervisor, _) => "supervisor: restarts after a growing wait".to_string(),
        (_, "orders") => {
            let open = picture.orders.rows.iter().filter(|row| !row.status.has_ended()).count();
            format!("durable runs: {open} under way, on disk")
        }
        _ => format!("scope: {} tasks send messages", member.children),
    }
}

fn state_text(member: &MemberInfo, look: &Look) -> (String, CellStyle) {
    let theme = look.theme;
    match &member.activity {
        Activity::WaitingToRestart { remaining } => {
            let millis = remaining.map_or(0, |left| left.as_millis());
            (format!("back in {}.{} s", millis / 1_000, millis % 1_000 / 100), theme.bad)
        }
        Activity::Restarting | Activity::Starting => ("restarting".to_string(), theme.bad),
        Activity::Suspended => ("suspended".to_string(), theme.warn),
        _ if member.is_full() => ("mailbox is full".to_string(), theme.bad),
        Activity::Handling { .. } | Activity::Running | Activity::Ready => ("working".to_string(), theme.good),
        Activity::Idle => ("idle".to_string(), theme.weak),
        Activity::Stopping | Activity::Ended => ("stopping".to_string(), theme.warn),
        _ => (String::new(), theme.weak),
    }
}

fn orders(canvas: &mut Canvas<'_>, area: Rect, picture: &Picture) {
    let inside = panel(canvas, area, "durable orders: every step is on disk");
    let look = canvas.look().clone();
    let rows = usize::from(inside.height);
    let lines = newest(&picture.orders.rows, rows).into_iter().map(|row| order_line(row, usize::from(inside.width), &look));
    canvas.lines(inside, lines.collect::<Vec<_>>());
}

/// Returns the orders to show, the oldest first: waiting ones, then open ones, then ended ones,
/// of which the newest come first.
fn newest(rows: &[OrderRow], count: usize) -> Vec<&OrderRow> {
    // What waits for the user comes first.
    let rank = |row: &&OrderRow| match row.status {
        RunStatus::Waiting => 0,
        status if !status.has_ended() => 1,
        _ => 2,
    };
    let mut shown: Vec<&OrderRow> = rows.iter().collect();
    shown.sort_by_key(rank);
    shown.truncate(count);
    shown.sort_by_key(|row| (row.id.len(), row.id.as_str()));
    shown
}

fn order_line(row: &OrderRow, width: usize, look: &Look) -> Line<'static> {
    let theme = look.theme;
    let is_over = row.status.has_ended();
    let mut spans =
        vec![Span::styled(format!(" {}", pad(&fit(&row.id, 10, look), 11)), if is_over { theme.weak } else { theme.strong })];
    // With little room only the current steps have their names.
    let is_wide = width >= 60;
    for (step, state) in STEPS.iter().zip(row.steps) {
        let (mark, style) = match state {
            StepState::Done => (look.glyphs.good, if is_over { theme.weak } else { theme.good }),
            StepState::Current => (look.glyphs.arrow, theme.warn),
            StepState::Waiting => (look.glyphs.warn, theme.bad),
            StepState::Open => (look.glyphs.dot, theme.weak),
        };
        let has_name = is_wide || matches!(state, StepState::Current | StepState::Waiting);
        let text = if has_name { format!("{mark} {step}  ") } else { format!("{mark} ") };
        spans.push(Span::styled(text, style));
    }
    let end = match row.status {
        RunStatus::Waiting => Span::styled(format!("{}? press a", price(row.cents)), theme.bad),
        RunStatus::Finished => Span::styled("shipped", theme.weak),
        status if status.has_ended() => Span::styled("ended", theme.bad),
        _ => Span::raw(""),
    };
    let used: usize = spans.iter().map(|span| width_of(&span.content)).sum();
    if used + width_of(&end.content) <= width {
        spans.push(end);
    } else if row.status == RunStatus::Waiting {
        spans.push(Span::styled("press a", end.style));
    }
    Line::from(spans)
}

fn account(canvas: &mut Canvas<'_>, area: Rect, picture: &Picture) {
    let theme = canvas.look().theme;
    let counts = &picture.account.counts;
    let number = |number: u64| Span::styled(with_commas(number), theme.strong);
    let word = |word: &'static str| Span::styled(word, theme.weak);
    let is_wide = area.width >= 90;
    let messages = Line::from(vec![
        word(if is_wide { " messages  " } else { " " }),
        number(counts.accepted),
        word(" accepted = "),
        number(counts.handled),
        word(" handled + "),
        number(counts.failed),
        word(" failed + "),
        number(counts.dead_lettered),
        word(" dead letters + "),
        number(picture.account.in_flight()),
        word(" in flight"),
    ]);
    let charges = &picture.orders.charges;
    let is_right = charges.charged_twice().is_none();
    let proof = if is_right { Span::styled("none twice", theme.good) } else { Span::styled("one twice", theme.bad) };
    let mut spans = vec![
        word(if is_wide { " charges   " } else { " " }),
        number(charges.made()),
        word(" charges for "),
        number(charges.runs()),
        word(" paid orders, "),
        proof,
        word("; kills -9 so far: "),
        number(picture.kills.into()),
    ];
    if charges.repeated > 0 {
        spans.extend([word("; repeated with the same key: "), number(charges.repeated)]);
    }
    canvas.lines(area, [messages, Line::from(spans)]);
}

/// The newest sentences, the newest first.
fn narrator(canvas: &mut Canvas<'_>, area: Rect, picture: &Picture, has_frame: bool) {
    let area = if has_frame { panel(canvas, area, "what happens") } else { area };
    let (look, theme) = (canvas.look().clone(), canvas.look().theme);
    let room = usize::from(area.width).saturating_sub(11);
    let lines = picture.lines.iter().rev().take(usize::from(area.height)).enumerate().flat_map(|(age, line)| {
        let mark = match line.tone {
            Tone::Plain => Span::styled(look.glyphs.dot, theme.weak),
            Tone::Trouble => Span::styled(look.glyphs.bad, theme.bad),
            Tone::Good => Span::styled(look.glyphs.good, theme.good),
            Tone::User => Span::styled(look.glyphs.pointer, theme.accent),
        };
        let text = if look.glyphs.is_ascii { line.text.replace('→', "->") } else { line.text.clone() };
        let style = if age == 0 { theme.strong } else { CellStyle::default() };
        let at = Span::styled(format!("{:>6.1} s ", line.at.as_secs_f64()), theme.weak);
        let mut lead = vec![at, mark, Span::raw(" ")];
        wrap(&text, room, &look).into_iter().map(move |part| {
            let lead = std::mem::replace(&mut lead, vec![Span::raw(" ".repeat(11))]);
            Line::from(lead.into_iter().chain([Span::styled(part, style)]).collect::<Vec<_>>())
        })
    });
    canvas.lines(area, lines.collect::<Vec<_>>());
}

/// What to type in a second terminal.
fn tools(canvas: &mut Canvas<'_>, area: Rect, places: &Places, console: Option<&str>) {
    let theme = canvas.look().theme;
    let top = format!("pleach top {}", quoted(&places.socket().display().to_string()));
    let runs = format!("pleach runs list {}", quoted(&places.store().display().to_string()));
    // Where there is one, the console shows more than a list of runs. The leads are short: the URL
    // must fit on 80 columns.
    let (leads, texts) = match console {
        Some(url) => ([" in the browser: ", " in a terminal: "], [url.to_string(), top]),
        None => ([" in a second terminal:   ", "                         "], [top, runs]),
    };
    if area.height >= 2 {
        let lines = leads.into_iter().zip(texts);
        let lines =
            lines.map(|(lead, text)| Line::from(vec![Span::styled(lead, theme.weak), Span::styled(text, theme.accent)]));
        canvas.lines(area, lines.collect::<Vec<_>>());
        return;
    }
    let [first, second] = texts;
    let lead = if console.is_some() { " " } else { " try: " };
    let mut spans = vec![Span::styled(lead, theme.weak), Span::styled(first, theme.accent)];
    let second = Span::styled(second, theme.accent);
    if spans.iter().map(|span| width_of(&span.content)).sum::<usize>() + 3 + width_of(&second.content)
        <= usize::from(area.width)
    {
        spans.extend([Span::raw("   "), second]);
    }
    canvas.line(area, Line::from(spans));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_orders_are_shown_before_ended_ones() {
        let row = |number: u32, status| OrderRow {
            id: format!("order-{number}"),
            status,
            record: 1,
            steps: [StepState::Open; STEPS.len()],
            cents: 0,
        };
        let rows: Vec<_> = (1..=12)
            .rev()
            .map(|number| row(number, if number == 2 { RunStatus::Waiting } else { RunStatus::Finished }))
            .collect();
        let shown: Vec<&str> = newest(&rows, 3).iter().map(|row| row.id.as_str()).collect();
        assert_eq!(shown, ["order-2", "order-11", "order-12"]);
    }
}
