//! [`Palette`]: jumps to a path, or runs a command by its name, on `:`.

use super::args::SortBy;
use crate::screen::text::{fit, fit_end, pad};
use crate::screen::widgets::{Prompt, Typed, dialog};
use crate::screen::{Canvas, Key, Line, Span};
use pleach::actor::ActorPath;

/// How many suggestions are shown.
const SUGGESTIONS_MAX: usize = 10;

/// What can be typed.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Shows the detail of this member.
    Jump(ActorPath),
    /// Lists only this member and those below it.
    Below(Option<ActorPath>),
    Sort(SortBy),
    List,
    Tree,
    Problems,
    Freeze,
    Help,
    Quit,
}

/// The commands without an argument. `below PATH` has one.
const COMMANDS: [(&str, &str, Command); 13] = [
    ("busiest", "the sorted list", Command::List),
    ("tree", "the tree", Command::Tree),
    ("problems", "only what is not well", Command::Problems),
    ("sort queued", "messages in the mailbox", Command::Sort(SortBy::Queued)),
    ("sort rate", "messages handled per second", Command::Sort(SortBy::Rate)),
    ("sort handling", "time in the handler", Command::Sort(SortBy::Handling)),
    ("sort restarts", "restarts within the limit", Command::Sort(SortBy::Restarts)),
    ("sort failed", "failed messages", Command::Sort(SortBy::Failed)),
    ("sort children", "children", Command::Sort(SortBy::Children)),
    ("all", "list pleach itself too, below /system", Command::Below(None)),
    ("freeze", "keep this picture, or continue", Command::Freeze),
    ("help", "all keys", Command::Help),
    ("quit", "end", Command::Quit),
];

/// The palette while it is open.
#[derive(Debug, Default)]
pub struct Palette {
    pub prompt: Prompt,
    chosen: usize,
}

/// What a key did to the palette.
pub enum Step {
    Stay,
    Close,
    Run(Command),
    /// The text is no command, for this reason.
    Wrong(String),
}

impl Palette {
    pub fn key(&mut self, key: Key, paths: &[ActorPath]) -> Step {
        match key {
            Key::Down | Key::Tab => self.chosen = (self.chosen + 1).min(self.suggestions(paths).len().saturating_sub(1)),
            Key::Up | Key::BackTab => self.chosen = self.chosen.saturating_sub(1),
            key => match self.prompt.key(key) {
                Typed::Changed => self.chosen = 0,
                Typed::Left => return Step::Close,
                Typed::Done => return self.run(paths),
                Typed::Other => {}
            },
        }
        Step::Stay
    }

    fn run(&self, paths: &[ActorPath]) -> Step {
        let text = self.prompt.text.trim();
        let path = |text: &str| text.parse::<ActorPath>().map_err(|error| error.to_string());
        if let Some(below) = text.strip_prefix("below ") {
            return path(below.trim()).map_or_else(Step::Wrong, |path| Step::Run(Command::Below(Some(path))));
        }
        match self.suggestions(paths).into_iter().nth(self.chosen) {
            Some(suggestion) => Step::Run(suggestion.command),
            None if text.starts_with('/') => path(text).map_or_else(Step::Wrong, |path| Step::Run(Command::Jump(path))),
            None => Step::Wrong(format!("unknown command {text:?}; Tab lists the commands, / begins a path")),
        }
    }

    /// Returns what fits to the text: commands, or the paths on the screen. A text that is a whole
    /// path fits to itself only.
    fn suggestions(&self, paths: &[ActorPath]) -> Vec<Suggestion> {
        let text = self.prompt.text.trim().to_lowercase();
        if text.starts_with('/') {
            let named = paths.iter().map(|path| (path.to_string(), path));
            let fits = named.filter(|(name, _)| name.to_lowercase().contains(&text));
            let found: Vec<_> = fits.take(SUGGESTIONS_MAX).collect();
            let is_whole = !found.iter().any(|(name, _)| *name == self.prompt.text.trim());
            let typed = self.prompt.text.trim().parse().ok().filter(|_| is_whole && text.len() > 1);
            let typed: Option<ActorPath> = typed;
            return typed
                .into_iter()
                .chain(found.into_iter().map(|(_, path)| path.clone()))
                .map(|path| Suggestion { text: path.to_string(), about: "detail", command: Command::Jump(path) })
                .collect();
        }
        let fits = COMMANDS.iter().filter(|(name, ..)| name.contains(&text));
        fits.map(|(name, about, command)| Suggestion { text: name.to_string(), about, command: command.clone() }).collect()
    }

    pub fn paint(&self, canvas: &mut Canvas<'_>, paths: &[ActorPath]) {
        let look = canvas.look().clone();
        let mut suggestions = self.suggestions(paths);
        let first = (self.chosen + 1).saturating_sub(SUGGESTIONS_MAX);
        suggestions = suggestions.into_iter().skip(first).take(SUGGESTIONS_MAX).collect();
        let area = dialog(canvas, "Jump to a path, or run a command", 70, 2 + SUGGESTIONS_MAX as u16);
        self.prompt.paint(canvas, area, ":");
        let rest = crate::screen::split_top(area, 2).1;
        let width = usize::from(area.width);
        canvas.lines(
            rest,
            suggestions.iter().enumerate().map(|(at, suggestion)| {
                let name = if suggestion.text.starts_with('/') { width.saturating_sub(10) } else { 16 };
                let text = pad(&fit_end(&suggestion.text, name, &look), name);
                let about = pad(&fit(suggestion.about, width.saturating_sub(name + 2), &look), width.saturating_sub(name + 2));
                let style = if at + first == self.chosen { look.theme.selected } else { Default::default() };
                Line::from(vec![
                    Span::styled(text, style),
                    Span::styled("  ", style),
                    Span::styled(about, style.patch(look.theme.weak)),
                ])
            }),
        );
    }
}

struct Suggestion {
    text: String,
    about: &'static str,
    command: Command,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, downs: usize) -> Step {
        let paths: Vec<ActorPath> = ["/user/till", "/user/till/printer", "/user/bank"].map(|path| path.parse().unwrap()).into();
        let mut palette = Palette::default();
        palette.prompt.paste(text);
        for _ in 0..downs {
            palette.key(Key::Down, &paths);
        }
        palette.key(Key::Enter, &paths)
    }

    #[test]
    fn palette_runs_commands_and_jumps_to_paths() {
        let jump = |path: &str| Command::Jump(path.parse().unwrap());
        for (text, downs, command) in [
            ("tr", 0, Command::Tree),
            ("sort", 3, Command::Sort(SortBy::Restarts)),
            ("/user/till", 0, jump("/user/till")),
            ("/user/elsewhere", 0, jump("/user/elsewhere")),
            ("/USER/BANK", 1, jump("/user/bank")),
            ("below /user/till", 0, Command::Below(Some("/user/till".parse().unwrap()))),
        ] {
            assert!(matches!(run(text, downs), Step::Run(ran) if ran == command), "{text}");
        }
        assert!(matches!(run("nonsense", 0), Step::Wrong(reason) if reason.contains("unknown command")));
        assert!(matches!(run("below nowhere//", 0), Step::Wrong(_)));
    }
}
