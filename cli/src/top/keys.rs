//! What keys do to a [`View`].

use super::action::{self, OFFERS};
use super::args::SortBy;
use super::detail::Detail;
use super::palette::{Command, Palette, Step};
use super::view::{Act, Mode, Overlay, View, user_path};
use crate::screen::Key;
use crate::screen::widgets::{Answer, Help, Prompt, Typed};
use std::time::Duration;

/// How often the process may be asked, in milliseconds.
const INTERVALS: [u64; 7] = [250, 500, 1_000, 2_000, 5_000, 10_000, 30_000];

impl View {
    pub fn paste(&mut self, text: &str) {
        match &mut self.overlay {
            Overlay::Filter(prompt, _) => {
                prompt.paste(text);
                self.list.is_read &= self.filter == prompt.text;
                self.filter = prompt.text.clone();
            }
            Overlay::Palette(palette) => palette.prompt.paste(text),
            _ => {}
        }
    }

    pub fn key(&mut self, key: Key) -> Act {
        self.note = None;
        match std::mem::take(&mut self.overlay) {
            Overlay::None => return self.plain_key(key),
            Overlay::Help(mut help) => {
                if help.key(key) {
                    self.overlay = Overlay::Help(help);
                }
            }
            Overlay::Confirm(confirm, order) => match confirm.key(key) {
                Some(Answer::Yes) => return Act::Order(order),
                Some(Answer::No) => self.say("nothing was changed".to_string(), false),
                None => self.overlay = Overlay::Confirm(confirm, order),
            },
            Overlay::Filter(prompt, before) => self.filter_key(key, prompt, before),
            Overlay::Palette(mut palette) => match palette.key(key, &self.paths()) {
                Step::Stay => self.overlay = Overlay::Palette(palette),
                Step::Close => {}
                Step::Run(command) => return self.run(command),
                Step::Wrong(reason) => self.say(reason, true),
            },
        }
        Act::Nothing
    }

    fn filter_key(&mut self, key: Key, mut prompt: Prompt, before: String) {
        match prompt.key(key) {
            Typed::Done => self.filter = prompt.text,
            Typed::Left => {
                self.list.is_read &= self.filter == before;
                self.filter = before;
            }
            Typed::Changed | Typed::Other => {
                // The list follows while the text is typed.
                self.list.is_read &= self.filter == prompt.text;
                self.filter = prompt.text.clone();
                self.overlay = Overlay::Filter(prompt, before);
            }
        }
        self.list.selection.stay_at_top();
    }

    fn plain_key(&mut self, key: Key) -> Act {
        match key {
            Key::Char('q') => return Act::Quit,
            Key::Char('?') => self.overlay = Overlay::Help(Help::default()),
            Key::Char(':') => self.overlay = Overlay::Palette(Palette::default()),
            Key::Char('/') => {
                self.show(Mode::Busiest);
                self.overlay = Overlay::Filter(Prompt { text: self.filter.clone() }, self.filter.clone());
            }
            Key::Char(' ' | 'p') => self.is_frozen = !self.is_frozen,
            Key::Char('+' | '=') => self.change_interval(1),
            Key::Char('-') => self.change_interval(-1),
            Key::Char('1') => self.show(Mode::Busiest),
            Key::Char('2') => self.show(Mode::Tree),
            Key::Char('3') => self.show(Mode::Problems),
            Key::Tab => self.show(match self.mode {
                Mode::Busiest => Mode::Tree,
                Mode::Tree => Mode::Problems,
                Mode::Problems => Mode::Busiest,
            }),
            Key::Char('t') => self.show_in_tree(),
            Key::Char(key) if SortBy::ALL.iter().any(|by| by.letter() == key) => {
                let by = SortBy::ALL.into_iter().find(|by| by.letter() == key).unwrap_or_default();
                return self.run(Command::Sort(by));
            }
            Key::Char(key) if OFFERS.iter().any(|offer| offer.key == key) => self.ask(key),
            Key::Enter => self.open(),
            Key::Esc => self.back(),
            key => self.move_key(key),
        }
        Act::Nothing
    }

    /// Runs a command of the palette.
    fn run(&mut self, command: Command) -> Act {
        match command {
            Command::Quit => return Act::Quit,
            Command::Jump(path) => self.detail = Some(Detail::new(path, None)),
            Command::Below(below) => {
                self.show(Mode::Busiest);
                (self.below, self.list.is_read) = (below, false);
                self.list.selection.stay_at_top();
            }
            Command::Sort(by) => {
                self.show(Mode::Busiest);
                (self.by, self.list.is_read) = (by, false);
            }
            Command::List => self.show(Mode::Busiest),
            Command::Tree => self.show(Mode::Tree),
            Command::Problems => self.show(Mode::Problems),
            Command::Freeze => self.is_frozen = !self.is_frozen,
            Command::Help => self.overlay = Overlay::Help(Help::default()),
        }
        Act::Nothing
    }

    fn show(&mut self, mode: Mode) {
        (self.mode, self.detail) = (mode, None);
    }

    fn show_in_tree(&mut self) {
        let path = match (&self.detail, self.mode) {
            (Some(detail), _) => Some(detail.path.clone()),
            (None, Mode::Problems) => self.problems.selected().and_then(|problem| problem.path.clone()),
            _ => self.chosen().map(|member| member.path.clone()),
        };
        path.into_iter().for_each(|path| self.tree.reveal(path));
        self.show(Mode::Tree);
    }

    fn change_interval(&mut self, by: isize) {
        let millis = self.interval.as_millis() as u64;
        let at = INTERVALS.iter().position(|interval| *interval >= millis).unwrap_or(INTERVALS.len() - 1);
        let next = at.saturating_add_signed(by).min(INTERVALS.len() - 1);
        self.interval = Duration::from_millis(INTERVALS[next]);
    }

    fn ask(&mut self, key: char) {
        let Some(offer) = OFFERS.iter().find(|offer| offer.key == key) else { return };
        if let Some(reason) = action::refusal(offer, self.hello.as_ref().filter(|_| self.lost.is_none()), self.can_write) {
            return self.say(reason, true);
        }
        let asked = self.chosen().map(|member| action::confirm(offer.action, member));
        match asked {
            Some((confirm, order)) => self.overlay = Overlay::Confirm(confirm, order),
            None => self.say("select a member first".to_string(), true),
        }
    }

    fn open(&mut self) {
        if self.detail.is_some() {
            return;
        }
        let opened = match self.mode {
            Mode::Problems => self.problems.selected().and_then(|problem| problem.path.clone()).map(|path| (path, None)),
            _ => self.chosen().map(|member| (member.path.clone(), Some(member.clone()))),
        };
        self.detail = opened.map(|(path, member)| Detail::new(path, member));
    }

    fn back(&mut self) {
        if self.detail.take().is_some() {
            return;
        }
        if self.mode != Mode::Busiest {
            return self.show(Mode::Busiest);
        }
        self.list.is_read &= self.filter.is_empty() && self.below == user_path();
        self.filter.clear();
        self.below = user_path();
        self.list.selection.stay_at_top();
    }

    fn move_key(&mut self, key: Key) {
        let page = self.height.saturating_sub(1).max(1) as isize;
        let by = match key {
            Key::Down | Key::Char('j') => 1,
            Key::Up | Key::Char('k') => -1,
            Key::PageDown | Key::Ctrl('f' | 'd') => page,
            Key::PageUp | Key::Ctrl('b' | 'u') => -page,
            Key::Home | Key::Char('g') => isize::MIN,
            Key::End | Key::Char('G') => isize::MAX,
            Key::Right | Key::Char('l') if self.detail.is_none() && self.mode == Mode::Tree => return self.tree.go_in(),
            Key::Left | Key::Char('h') if self.detail.is_none() && self.mode == Mode::Tree => return self.tree.go_out(),
            _ => return,
        };
        if let Some(detail) = &mut self.detail {
            detail.first = detail.first.saturating_add_signed(by);
            return;
        }
        match self.mode {
            Mode::Busiest if by == isize::MIN => self.list.selection.stay_at_top(),
            Mode::Busiest => {
                let keys = self.list_keys();
                self.list.selection.move_by(by, &keys);
            }
            Mode::Tree => self.tree.move_by(by),
            Mode::Problems => {
                let keys = self.problems.keys();
                self.problems.selection.move_by(by, &keys);
            }
        }
    }
}
