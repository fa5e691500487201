// Where the tokens of a run are, what each waits for, and messages that the run refused.

import { html, useState } from "../lib.js";
import { count, plural, visible } from "../text.js";
import { Badge, Button, Section, Time } from "../ui.js";
import { branchText, placeText } from "./timeline-model.js";
import { Value } from "./value.js";
import { Wait } from "./wait.js";

/** The positions that are listed before a person asks for more. */
const SHOWN = 8;

/** Shows the positions of the run `show`, and its state if it has only one. */
export function Positions({ show, run, store, leftOut }) {
  const [shown, setShown] = useState(SHOWN);
  const { tokens = [], refused = [] } = show;
  const waits = tokens.flatMap((token) => token.waits.map((wait) => ({ token, wait })));
  const others = tokens.filter((token) => token.waits.length === 0).toSorted((a, b) => Number(Boolean(b.failure)) - Number(Boolean(a.failure)));
  const more = Math.min(SHOWN * 4, others.length - shown);
  return html`<div class="positions">
    ${waits.length > 0 && html`<${Section} title=${waits.length === 1 ? "It waits" : `It waits for ${plural(waits.length, "thing")}`}>
      ${waits.map(({ token, wait }) => html`<article class="card wait-card" key=${`${token.branch.join(".")}/${wait.kind}/${wait.key}`}>
        <${Wait} run=${run} wait=${wait} note=${html`at <span class="mono">${visible(placeText(token.at))}</span>${token.branch.length > 0 && `, ${branchText(token.branch)}`}${wait.since && html`, since <${Time} at=${wait.since} form="ago" />`}`} /></article>`)}<//>`}
    ${refused.length > 0 && html`<${Section} title="Refused messages"><ul class="refused-list">${refused.map((one) => html`<li class="refused" key=${one.number}><${Badge} tone="error">refused<//>
      <span><span class="mono">${visible(one.name)}</span>, <${Time} at=${one.at} form="ago" />: ${visible(one.reason)}</span></li>`)}</ul><//>`}
    ${others.length > 0 && html`<${Section} title=${others.length === 1 ? "Position" : `Positions (${count(others.length)})`}>
      <ul class="tokens">${others.slice(0, shown).map((token, at) => html`<li key=${at}><${Token} token=${token} /></li>`)}</ul>
      ${more > 0 && html`<${Button} kind="quiet" icon="down" onClick=${() => setShown(shown + more)}>${count(others.length - shown)} more: show ${count(more)}<//>`}
      ${leftOut > 0 && html`<p class="note">${count(leftOut)} further positions are not listed; the graph counts all.</p>`}<//>`}
    ${tokens.length === 1 && html`<${Section} title="State now"><div class="card state-card"><${Value} key=${show.record} label="State now" source=${{ store, run }} /></div><//>`}
  </div>`;
}

function Token({ token }) {
  const { failure } = token;
  const tone = failure || token.at.kind === "failed" ? "error" : token.at.kind === "end" ? "ok" : "busy";
  return html`<${Badge} tone=${tone}><span class="mono">${visible(placeText(token.at))}</span><//> ${token.branch.length > 0 && html`<small>${branchText(token.branch)}</small>`}
    ${failure && html`<span class="run-reason">${visible(failure.reason)} <small>attempt ${failure.attempt}${failure.retry_at && html`, next <${Time} at=${failure.retry_at} form="ago" />`}</small></span>`}`;
}
