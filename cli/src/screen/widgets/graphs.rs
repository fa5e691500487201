//! Small graphs as text: the fill of a mailbox, and how a number changed.

use crate::screen::{Look, Span};

/// From this fill on, a bar warns.
const WARN_FROM: f64 = 0.5;

/// Shows how full a mailbox is, in `width` columns. Without a capacity, the bar grows with the
/// logarithm of the number of queued messages.
pub fn mailbox_bar(queued: u64, capacity: Option<u64>, width: usize, look: &Look) -> Vec<Span<'static>> {
    let fill = match capacity {
        Some(capacity) => queued as f64 / capacity.max(1) as f64,
        // A million queued messages fill it.
        None => (1.0 + queued as f64).log10() / 6.0,
    };
    let fill = fill.clamp(0.0, 1.0);
    let is_full = capacity.is_some_and(|capacity| queued >= capacity);
    let style = match () {
        () if is_full => look.theme.bad,
        () if fill >= WARN_FROM => look.theme.warn,
        () => look.theme.good,
    };
    let glyphs = look.glyphs;
    let steps = glyphs.parts.len();
    // What is not empty shows at least the smallest part; what is not full is not shown as full.
    let most = (width * steps).saturating_sub(usize::from(!is_full));
    let filled = ((fill * (width * steps) as f64).round() as usize).clamp(usize::from(queued > 0), most);
    let mut bar = glyphs.parts[steps - 1].repeat(filled / steps);
    if filled % steps > 0 {
        bar.push_str(glyphs.parts[filled % steps - 1]);
    }
    let empty = glyphs.empty.repeat(width.saturating_sub(filled.div_ceil(steps)));
    vec![Span::styled(bar, style), Span::styled(empty, look.theme.weak)]
}

/// Shows the last `width` values, the newest at the right. The largest is the highest.
pub fn sparkline(values: impl DoubleEndedIterator<Item = f64>, width: usize, look: &Look) -> Span<'static> {
    let mut shown: Vec<f64> = values.rev().take(width).collect();
    shown.reverse();
    let (levels, top) = (look.glyphs.levels, shown.iter().copied().fold(0.0, f64::max));
    let level = |value: f64| {
        // Zero is the lowest level; anything above zero is at least the second.
        let level = if value <= 0.0 || top <= 0.0 { 0.0 } else { (value / top * (levels.len() - 1) as f64).ceil() };
        levels[(level as usize).min(levels.len() - 1)]
    };
    let line: String = shown.iter().map(|value| level(*value)).collect();
    Span::styled(format!("{}{line}", " ".repeat(width - shown.len())), look.theme.accent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(queued: u64, capacity: Option<u64>, ascii: bool) -> String {
        mailbox_bar(queued, capacity, 4, &Look::with(false, ascii)).iter().map(|span| span.content.as_ref()).collect()
    }

    #[test]
    fn bar_shows_empty_and_full_exactly() {
        assert_eq!((bar(0, Some(1_000), true), bar(1_000, Some(1_000), true)), ("....".into(), "####".into()));
        assert_eq!(bar(999, Some(1_000), true), "###.", "nearly full is not full");
        assert_eq!(bar(1, Some(1_000), true), "#...", "one message is not none");
        assert_eq!((bar(1, Some(1_000), false), bar(500, Some(1_000), false)), ("▏░░░".into(), "██░░".into()));
        assert_eq!((bar(0, None, true), bar(5_000_000, None, true)), ("....".into(), "###.".into()));
        assert_eq!(bar(3, Some(0), true), "####", "a mailbox without room is full");
    }

    #[test]
    fn sparkline_shows_the_newest_at_the_right() {
        let look = Look::with(false, true);
        assert_eq!(sparkline([0.0, 3.0, 6.0].into_iter(), 5, &look).content, "  _=#");
        assert_eq!(sparkline((0..9).map(f64::from), 3, &look).content, "*##");
        assert_eq!(sparkline([0.0, 0.0].into_iter(), 2, &look).content, "__");
    }
}
