//! The nodes of the agent: plain async functions over its state.

use async_openai::types::chat::{ChatCompletionRequestUserMessageArgs, CreateChatCompletionRequestArgs};
use async_openai::{Client, config::OpenAIConfig};
use futures::StreamExt;
use pleach::BoxError;
use pleach::graph::NodeContext;

#[derive(Clone, Debug, Default)]
pub struct Agent {
    pub question: String,
    /// The tool calls to make next.
    pub calls: Vec<String>,
    /// The results of earlier calls.
    pub findings: Vec<String>,
    pub answer: String,
}

/// Calls the model, emits its words as they arrive, and returns the whole text.
async fn ask(cx: &NodeContext, prompt: String) -> Result<String, BoxError> {
    let client = cx.extension::<Client<OpenAIConfig>>().ok_or("the run has no client")?;
    let message = ChatCompletionRequestUserMessageArgs::default().content(prompt).build()?;
    let request = CreateChatCompletionRequestArgs::default().model("gpt-4o-mini").messages([message.into()]).build()?;
    let (mut chunks, mut text) = (client.chat().create_stream(request).await?, String::new());
    while let Some(chunk) = chunks.next().await {
        for word in chunk?.choices.into_iter().filter_map(|choice| choice.delta.content) {
            text += &word;
            cx.emit(word);
        }
    }
    Ok(text)
}

pub async fn plan(cx: NodeContext, mut agent: Agent) -> Result<Agent, BoxError> {
    let prompt = "Plan: which of `add A B` and `count WORD` help with this, one a line, nothing else?";
    let text = ask(&cx, format!("{prompt}\nQuestion: {}\nKnown: {:?}", agent.question, agent.findings)).await?;
    agent.calls = text.lines().map(str::to_string).filter(|call| !call.is_empty()).collect();
    Ok(agent)
}

/// Runs the one tool call of a branch.
pub async fn tool(agent: Agent) -> Result<Agent, BoxError> {
    let result = match agent.calls[0].split_whitespace().collect::<Vec<_>>()[..] {
        ["add", a, b] => (a.parse::<i64>()? + b.parse::<i64>()?).to_string(),
        ["count", word] => word.chars().count().to_string(),
        _ => "no such tool".to_string(),
    };
    Ok(Agent { findings: vec![format!("{} = {result}", agent.calls[0])], ..agent })
}

/// Merges the results of all branches, in the order of the calls.
pub fn found(mut before: Agent, branches: Vec<Agent>) -> Agent {
    before.findings.extend(branches.into_iter().flat_map(|branch| branch.findings));
    before
}

pub async fn judge(cx: NodeContext, mut agent: Agent) -> Result<Agent, BoxError> {
    let prompt = "Judge: answer the question from what is known in one line, or say `again` if more must be found out.";
    agent.answer = ask(&cx, format!("{prompt}\nQuestion: {}\nKnown: {:?}", agent.question, agent.findings)).await?;
    Ok(agent)
}

/// Makes one branch per call. The state of a branch holds only its call.
pub fn each_call(agent: &Agent) -> Vec<Agent> {
    agent.calls.iter().map(|call| Agent { calls: vec![call.clone()], ..Agent::default() }).collect()
}
