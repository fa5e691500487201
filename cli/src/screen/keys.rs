//! [`Keys`]: a thread that reads what is typed.

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How many keys wait for the view. The terminal keeps further ones.
const TYPED_MAX: usize = 64;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    /// A letter with Ctrl, in lower case.
    Ctrl(char),
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
}

/// What was typed.
pub enum Typed {
    Key(Key),
    Paste(String),
    /// The terminal has another size.
    Resized,
    /// The terminal is closed.
    End,
}

pub struct Keys(Receiver<Typed>);

impl Keys {
    /// Starts the thread. It ends with the process: a blocked read cannot be interrupted.
    pub fn start() -> io::Result<Self> {
        let (sender, receiver) = channel(TYPED_MAX);
        std::thread::Builder::new().name("pleach-keys".into()).spawn(move || read(&sender))?;
        Ok(Self(receiver))
    }

    pub async fn next(&mut self) -> Typed {
        self.0.recv().await.unwrap_or(Typed::End)
    }
}

fn read(sender: &Sender<Typed>) {
    loop {
        let typed = match event::read() {
            Ok(Event::Key(key)) => {
                // Esc and a key in quick succession look like Alt and the key. Alt has no use here.
                let is_esc = key.modifiers.contains(KeyModifiers::ALT) && key.kind != KeyEventKind::Release;
                if is_esc && sender.blocking_send(Typed::Key(Key::Esc)).is_err() {
                    return;
                }
                key_of(key).map(Typed::Key)
            }
            Ok(Event::Paste(text)) => Some(Typed::Paste(text)),
            Ok(Event::Resize(..)) => Some(Typed::Resized),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(_) => return,
        };
        if typed.is_some_and(|typed| sender.blocking_send(typed).is_err()) {
            return;
        }
    }
}

fn key_of(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    Some(match event.code {
        KeyCode::Char(letter) if event.modifiers.contains(KeyModifiers::CONTROL) => Key::Ctrl(letter.to_ascii_lowercase()),
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        _ => return None,
    })
}
