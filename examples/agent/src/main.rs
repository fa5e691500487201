//! An agent as a graph: plan → tools in parallel → judge, repeated until the judge accepts the
//! answer. The words of the model are printed as they arrive.
//!
//! Run it with `cargo run --package pleach-example-agent`. It starts a small server with OpenAI's
//! API. To use another server, set `OPENAI_BASE_URL` and `OPENAI_API_KEY`.

mod nodes;
mod server;

use async_openai::{Client, config::OpenAIConfig};
use nodes::{Agent, each_call, found, judge, plan, tool};
use pleach::BoxError;
use pleach::graph::{RunEvent, RunUpdate};
use pleach::prelude::*;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let patience = Duration::from_secs(60);
    let model = || Policy::new().timeout(patience).retry(Retry::times(3).backoff(Duration::from_secs(1), patience));
    let graph = Graph::<Agent>::new("agent")
        .add_node("plan", plan)
        .add_node("tool", tool)
        .add_node("judge", judge)
        .map("plan", each_call, "tool", "judge", FanOut::merge(found).limit(8))
        .add_edge("tool", "judge")
        .add_conditional_edge("judge", ["plan", END], |agent: &Agent| if agent.answer.trim() == "again" { "plan" } else { END })
        .policy("plan", model())
        .policy("judge", model())
        .set_entry("plan")
        .compile()?;
    let config = match std::env::var("OPENAI_BASE_URL") {
        Ok(_) => OpenAIConfig::default(),
        Err(_) => OpenAIConfig::new().with_api_base(server::start().await?).with_api_key("none"),
    };
    let first = Agent { question: "What is 17 + 25 plus the length of `pleach`?".into(), ..Agent::default() };
    let mut updates = graph.run(first).max_iterations(40).extension(Client::with_config(config)).stream();
    while let Some(update) = updates.next().await {
        match update {
            RunUpdate::Event(RunEvent::Emitted { value, .. }) => print!("{}", value.text().unwrap_or_default()),
            RunUpdate::Event(RunEvent::NodeStarted { visit, .. }) => print!("\n[{} {:?}] ", visit.node, visit.branch),
            RunUpdate::Ended(agent) => println!("\n\n{}", agent?.answer),
            _ => {}
        }
    }
    Ok(())
}
