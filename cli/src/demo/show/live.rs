//! The show on a terminal: its loop and its keys.

use super::paint;
use super::picture::{Tone, WorkerState};
use super::{Stage, Update};
use crate::args::DemoArgs;
use crate::demo::protocol::Order;
use crate::failure::Failure;
use crate::output::Output;
use crate::screen::widgets::{Help, HelpSection, Hint};
use crate::screen::{Ending, Input, Key, Look, Screen};
use pleach::inspect::{Client, InspectAction};
use pleach::prelude::ActorPath;
use std::time::{Duration, Instant};

/// How long the loop sleeps at most: flashes and times change without an update.
const TICK: Duration = Duration::from_millis(200);

/// The keys in the footer, the most useful first.
pub const HINTS: [Hint; 7] = [
    Hint::new("9", "kill -9 the worker"),
    Hint::new("a", "approve"),
    Hint::new("p", "poison"),
    Hint::new("o", "overload"),
    Hint::new("x", "stop actor"),
    Hint::new("j/k", "choose actor"),
    Hint::new("space", "pause"),
];

/// The keys at the right of the footer.
pub const ALWAYS: [Hint; 2] = [Hint::new("?", "help"), Hint::new("q", "quit")];

const HELP: [HelpSection; 3] = [
    HelpSection {
        title: "Break something",
        hints: &[
            Hint::new("9", "kill -9 the worker process: actors start anew, orders continue"),
            Hint::new("p", "send the chosen actor a message that panics its handler"),
            Hint::new("o", "send the chosen actor 5000 messages at once"),
            Hint::new("x", "stop the chosen actor through the inspection socket"),
        ],
    },
    HelpSection {
        title: "Take part",
        hints: &[
            Hint::new("a", "approve the order that waits longest"),
            Hint::new("space", "pause the shop and the orders, or continue"),
            Hint::new("j k", "choose an actor; also with the arrow keys"),
        ],
    },
    HelpSection { title: "Leave", hints: &[Hint::new("q", "quit, and see the account of every message")] },
];

/// What the user sees beside the picture.
#[derive(Default)]
pub struct View {
    /// The path of the chosen actor.
    pub chosen: String,
    help: Option<Help>,
}

/// Returns whether the show has a terminal and may use it.
pub fn is_wanted(args: &DemoArgs, output: &Output) -> bool {
    !args.plain && !output.is_json() && Screen::is_possible()
}

pub async fn run(mut stage: Stage, args: &DemoArgs, output: &Output) -> Result<(), Failure> {
    let mut screen = Screen::enter(Look::new(output.has_colour()))?;
    let ending = play(&mut stage, &mut screen, args.duration).await;
    // The account is printed on the usual screen of the terminal.
    drop(screen);
    let ending = ending?;
    stage.finish().await?.print(output)?;
    ending.map_or(Ok(()), |ending| Err(ending.failure()))
}

/// Shows everything until the user or a signal ends it.
async fn play(stage: &mut Stage, screen: &mut Screen, duration: Option<Duration>) -> Result<Option<Ending>, Failure> {
    let ends = duration.map(|duration| stage.picture.begun + duration);
    let mut view = View::default();
    stage.start()?;
    loop {
        let now = Instant::now();
        if ends.is_some_and(|at| now >= at) {
            return Ok(None);
        }
        if stage.restart_at().is_some_and(|at| now >= at) {
            stage.start()?;
        }
        tokio::select! {
            input = screen.next() => match input {
                Input::Draw => screen.draw(|canvas| view.paint(canvas, stage)),
                Input::Key(key) => if view.key(key, stage) == After::Quit { return Ok(None) },
                Input::Paste(_) => {}
                Input::End(ending) => return Ok(Some(ending)),
            },
            update = stage.updates.recv() => if let Some(update) = update {
                stage.apply(update)?;
                screen.change();
            },
            () = tokio::time::sleep(TICK) => screen.change(),
        }
    }
}

/// What follows a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Show,
    Quit,
}

impl View {
    fn key(&mut self, key: Key, stage: &mut Stage) -> After {
        if let Some(help) = &mut self.help {
            if !help.key(key) {
                self.help = None;
            }
            return After::Show;
        }
        match key {
            Key::Char('q') | Key::Esc => return After::Quit,
            Key::Char('?') => self.help = Some(Help::default()),
            Key::Up | Key::Char('k') => self.choose(stage, -1),
            Key::Down | Key::Char('j') => self.choose(stage, 1),
            Key::Char('9') => stage.kill_worker(),
            Key::Char('a') if stage.approve() => {}
            Key::Char('a') => {
                stage.picture.say(Instant::now(), Tone::User, "no order waits for an approval now".to_string());
            }
            Key::Char('p') => self.order(stage, |path| Order::Poison { path }),
            Key::Char('o') => self.order(stage, |path| Order::Overload { path }),
            Key::Char('x') => self.stop(stage),
            Key::Char(' ') => pause(stage),
            _ => {}
        }
        After::Show
    }

    /// Chooses the next or the previous actor.
    fn choose(&mut self, stage: &Stage, step: isize) {
        let actors: Vec<String> = paint::actors(&stage.picture).map(|member| member.path.to_string()).collect();
        let at = actors.iter().position(|path| *path == self.chosen);
        let next = at.map_or(0, |at| at.saturating_add_signed(step).min(actors.len().saturating_sub(1)));
        if let Some(path) = actors.get(next) {
            self.chosen.clone_from(path);
        }
    }

    /// Sends the worker an order about the chosen actor.
    fn order(&self, stage: &mut Stage, order: impl FnOnce(String) -> Order) {
        if stage.picture.worker == WorkerState::Running {
            stage.order(&order(self.chosen.clone()));
        }
    }

    /// Stops the chosen actor, as `pleach top` would.
    fn stop(&self, stage: &Stage) {
        let Some(member) = stage.picture.member(&self.chosen) else { return };
        let (socket, path, id) = (stage.folder().places().socket(), member.path.clone(), member.id);
        let sender = stage.sender();
        tokio::spawn(async move {
            let name = path.to_string();
            let acted = match stop_through(&socket, &path, id).await {
                Ok(()) => Ok(format!("stopped {} through the socket, as any tool could", super::narrator::name(&name))),
                Err(error) => Err(format!("{name} could not be stopped: {error}")),
            };
            drop(sender.send(Update::Acted(acted)).await);
        });
    }

    pub fn paint(&mut self, canvas: &mut crate::screen::Canvas<'_>, stage: &Stage) {
        if self.chosen.is_empty() {
            // An interesting one: it fails now and then.
            let first = paint::actors(&stage.picture).find(|member| member.path.to_string().ends_with("/stock"));
            self.chosen = first.map(|member| member.path.to_string()).unwrap_or_default();
        }
        paint::paint(canvas, &stage.picture, self, stage.folder().places());
        if let Some(help) = &mut self.help {
            help.paint(canvas, &HELP);
        }
    }
}

async fn stop_through(socket: &std::path::Path, path: &ActorPath, id: u64) -> Result<(), pleach::inspect::ClientError> {
    Client::connect(socket).await?.act(InspectAction::Stop, path, Some(id)).await
}

/// Pauses the shop, or opens it again.
fn pause(stage: &mut Stage) {
    let is_paused = !stage.picture.is_paused;
    stage.picture.is_paused = is_paused;
    stage.order(if is_paused { &Order::Pause } else { &Order::Continue });
    let text = if is_paused { "paused: no messages are sent, no step continues" } else { "the shop is open again" };
    stage.picture.say(Instant::now(), Tone::User, text.to_string());
}
