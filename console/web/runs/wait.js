// One wait of a run: what it asks, until when, and a form for the answer or the signal.

import { html, useId, useState } from "../lib.js";
import { openAction } from "../act.js";
import { store } from "../sources.js";
import { bytes, visible } from "../text.js";
import { Badge, Time } from "../ui.js";
import { field, layOut, tryParse } from "./exact-json.js";
import { AnswerForm } from "./form.js";
import { Value } from "./value.js";
import { leftOut } from "./value-model.js";

const WORDS = { question: "asks", signal: "waits for the signal", time: "waits for a time" };

/** Shows `wait` of the run with the id `run`. `note` says where it is. */
export function Wait({ run, wait, note }) {
  const id = useId();
  const [problem, setProblem] = useState(null);
  const [outcome, setOutcome] = useState(null);
  const { key } = store.value;
  const refused = Array.isArray(wait.refused) ? wait.refused : wait.refused ? [wait.refused] : [];
  const onDone = (result) => {
    if (result.outcome === "refused") setProblem(result.text);
    else setOutcome(result);
  };
  const onSend = (value) => {
    setProblem(null);
    openAction(wait.kind === "signal"
      ? { kind: "signal", store: key, run, name: wait.key, value }
      : { kind: "answer", store: key, run, key: wait.key, value }, { onDone });
  };
  return html`<div class="wait">
    <p class="wait-head"><${Badge} tone="waiting">${WORDS[wait.kind] ?? "waits"}<//> <span class="mono">${visible(wait.key)}</span>
      ${note && html`<span class="note">${note}</span>`}
      ${wait.due && html`<span class="note">until <${Time} at=${wait.due} /> (<${Time} at=${wait.due} form="ago" />)</span>`}</p>
    <${Question} source=${{ store: key, run, question: wait.key }} question=${wait.question} />
    ${refused.map((one, at) => html`<p class="refused" key=${at}><${Badge} tone="error">refused<//> <span>${one.at && html`<${Time} at=${one.at} form="ago" />: `}${visible(one.reason ?? one)}</span></p>`)}
    ${wait.kind !== "time" && (outcome
      ? html`<p role="status"><${Badge} tone="ok">${visible(outcome.outcome)}<//> ${visible(outcome.text)}</p>`
      : html`<${AnswerForm} id=${id} question=${wait.question} schema=${wait.schema ?? field(tryParse(wait.question), "schema")?.text ?? null} onSend=${onSend} problem=${problem} word=${wait.kind === "signal" ? "Send the signal" : "Answer"} />`)}
  </div>`;
}

const TEXTS = ["text", "question", "prompt", "title", "message"];

/** A question: a sentence if it is a string or has a text, and its value. */
function Question({ source, question }) {
  if (question === null || question === undefined) return null;
  if (leftOut(question)) return html`<p class="note">The question has ${bytes(leftOut(question))}.</p><${Value} source=${source} label="Question" />`;
  const node = tryParse(question);
  if (node?.kind === "string") return html`<p class="question">${visible(node.value, { lines: true })}</p>`;
  const said = TEXTS.map((name) => field(node, name)).find((one) => one?.kind === "string");
  return html`${said && html`<p class="question">${visible(said.value, { lines: true })}</p>`}
    <details class="question-value" open=${!said}><summary>The whole question</summary><pre class="block" tabindex="0" role="region" aria-label="Question">${visible(layOut(question), { lines: true })}</pre></details>`;
}
