//! `pleach top`: a live view of a running process, through its inspection socket.
//!
//! | file | owns |
//! |---|---|
//! | `args` | the arguments |
//! | `once` | one table or JSON object, without a live view |
//! | `feed`, `wish` | the connection: what is asked for, and when |
//! | `view`, `keys` | what is shown, and what answers and keys do to it |
//! | `rows` | the selection, which stays on its node; rates from counts |
//! | `tree`, `problems`, `detail`, `palette`, `action` | the parts of the view |
//! | `paint`, `header`, `columns` | the picture |
//!
//! The process sorts, filters and cuts: this command gets the rows that it shows and a few more, so
//! its cost does not grow with the number of members, apart from one comparison of all of them.

mod action;
pub mod args;
mod columns;
mod detail;
mod feed;
mod header;
mod keys;
mod once;
mod paint;
mod palette;
mod problems;
mod rows;
mod tree;
mod view;
mod wish;

use crate::failure::Failure;
use crate::output::Output;
use crate::screen::{Input, Look, Screen};
use args::TopArgs;
use feed::Feed;
use std::io::IsTerminal as _;
use view::{Act, View};

/// Shows the view until it is left, or prints one table.
pub async fn run(args: TopArgs, output: &Output) -> Result<(), Failure> {
    let limit = args.process.timeout;
    let socket = args.process.socket.open(limit).await?;
    if args.once || output.is_json() || !std::io::stdout().is_terminal() {
        return once::run(socket, args, output).await;
    }
    if !Screen::is_possible() {
        let text = "a live view needs a terminal for input and output, and a TERM that is not `dumb`";
        return Err(Failure::usage(text).advice("print one table with: pleach top SOCKET --once"));
    }
    let mut view = View::new(socket.hello().clone(), args.by, output.times().clone());
    (view.can_write, view.interval) = (args.write, args.interval);
    view.below = args.below.or(view.below);
    view.filter = args.filter.unwrap_or_default();
    let mut screen = Screen::enter(Look::new(output.has_colour()))?;
    let mut feed = Feed::start(socket, limit, view.wish());
    loop {
        let act = tokio::select! {
            input = screen.next() => match input {
                Input::Draw => {
                    screen.draw(|canvas| view.paint(canvas));
                    Act::Nothing
                }
                Input::Key(key) => view.key(key),
                Input::Paste(text) => {
                    view.paste(&text);
                    Act::Nothing
                }
                Input::End(ending) => {
                    drop(screen);
                    return Err(ending.failure());
                }
            },
            update = feed.next() => {
                screen.change();
                view.apply(update)
            }
        };
        match act {
            Act::Nothing => {}
            Act::Quit => return Ok(()),
            Act::Order(order) => {
                if !feed.order(order) {
                    view.say("earlier actions are not answered yet; nothing was changed".to_string(), true);
                }
            }
            Act::FollowAgain => feed.follow_again(),
        }
        feed.want(view.wish());
    }
}
