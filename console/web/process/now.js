// What a member does now, whom it waits for, and the chain or cycle of waits.

import { html } from "../lib.js";
import { Badge, Code, Path, Section } from "../ui.js";
import { Icon } from "../icons.js";
import { count, plural, rate, visible, words } from "../text.js";
import { duration } from "../time.js";
import { Reasons } from "./not-well.js";
import { activityOf, isFilling, queuedText, waitText } from "./words.js";

export function Now({ value, process }) {
  const { member, why, rates, reasons = [] } = value;
  const { actor, waits = [] } = member;
  const { tone, icon, text } = activityOf(member);
  return html`<${Section} title="Now"><div class="card now">
    <p class="now-line"><${Badge} tone=${tone} icon=${icon}>${text}<//>
      ${member.activity?.is_exact === false && html`<small>seen by sampling, so the time is a lower bound</small>`}
      ${member.cancelled_for_us !== null && member.cancelled_for_us !== undefined && html`<${Badge} tone="warning" icon="stopped">cancelled ${duration(member.cancelled_for_us)} ago<//>`}</p>
    <${Reasons} reasons=${reasons} />
    ${actor && html`<${Mailbox} actor=${actor} />`}
    ${rates && html`<${Rates} rates=${rates} />`}
    ${waits.length > 0 && html`<ul class="waits" aria-label="Waits">${waits.map((wait, index) => html`<li key=${index}><${Icon} name="clock" size=${14} /> ${waitText(wait)} ${wait.on && html`<${Path} path=${wait.on} process=${process} />`}</li>`)}
      ${member.waits_left_out > 0 && html`<li class="note">and ${plural(member.waits_left_out, "more wait")}</li>`}</ul>`}
    ${why && html`<${Chain} why=${why} path=${member.path} process=${process} />`}
  </div><//>`;
}

function Mailbox({ actor }) {
  const { queued, capacity, waiting_senders: waiting, stashed, timers } = actor;
  const rest = [waiting > 0 && plural(waiting, "sender waits", "senders wait"), stashed > 0 && `${count(stashed)} stashed`, timers > 0 && plural(timers, "timer")].filter(Boolean);
  return html`<div class="mailbox"><p><span class="lead">Mailbox</span> <strong class=${isFilling(actor) ? "tone-warning marked" : ""}>${queuedText(actor)}</strong>${queued > 0 || capacity ? " queued" : " messages queued"}
      ${!capacity && html` <small>no limit</small>`}${rest.length > 0 && html` <span class="note">· ${rest.join(" · ")}</span>`}</p>
    ${capacity && html`<meter class="meter" min="0" max=${capacity} high=${capacity * 0.8} optimum="0" value=${queued} aria-label="Mailbox">${queued}</meter>`}</div>`;
}

function Rates({ rates: { last_10s: short, last_60s: long } }) {
  if (!short && !long) return html`<p class="note">Rates are there after the second look.</p>`;
  const row = (title, values) => values && html`<tr><th scope="row">${title}</th>${["accepted", "handled", "failed", "dead_lettered"].map((name) => html`<td key=${name} class=${values[name] > 0 ? "" : "zero"}>${rate(values[name])}</td>`)}</tr>`;
  return html`<table class="rates"><caption class="unseen">Messages per second, with everything below</caption>
    <thead><tr><th scope="col">Per second, with all below</th><th scope="col">Accepted</th><th scope="col">Handled</th><th scope="col">Failed</th><th scope="col">Dead</th></tr></thead>
    <tbody>${row("last 10 s", short)}${row("last 60 s", long)}</tbody></table>`;
}

/** Who waits for whom, from this member to the deepest cause. */
function Chain({ why, path, process }) {
  const { chain = [], is_cycle: isCycle, waiters = [], waiters_left_out: leftOut } = why;
  if (chain.length < 2 && waiters.length === 0) return null;
  return html`<div class="chain"><h3>${isCycle ? html`<${Badge} tone="error" icon="restarting">wait cycle<//> These members wait for each other` : chain.length > 1 ? "Waits for, down to the deepest cause" : "Who waits for it"}</h3>
    ${chain.length > 1 && html`<ol class="chain-list">${chain.map((member, index) => html`<${Link} key=${index} member=${member} process=${process} isSelf=${member.path === path} verb=${verbOf(member, chain[index + 1])} />`)}
      ${isCycle && html`<li class="chain-back"><${Icon} name="restarting" size=${14} /> and so on: nobody of them can go on</li>`}</ol>`}
    ${waiters.length > 0 && html`<p class="note chain-waiters">${plural(waiters.length + (leftOut ?? 0), "other member waits", "other members wait")} for ${chain.length > 1 ? "one of them" : "it"}:
      ${waiters.slice(0, 8).map(({ path: other, wait }, index) => html`${index > 0 && ", "}<${Path} key=${other} path=${other} process=${process} />${wait?.kind && wait.kind !== "answer" ? ` (${words(wait.kind)})` : ""}`)}${waiters.length + (leftOut ?? 0) > 8 && " …"}</p>`}</div>`;
}

/** The verb from a member to the next one of the chain. */
function verbOf(member, next) {
  const wait = next && (member.waits ?? []).find(({ on }) => on === next.path);
  return next ? (wait ? waitText(wait) : "waits for") : null;
}

function Link({ member, process, isSelf, verb }) {
  const { tone, icon, text } = activityOf(member);
  return html`<li class=${isSelf ? "chain-self" : ""}><div><${Path} path=${member.path} process=${process} /> <${Badge} tone=${tone} icon=${icon}>${text}<//>
      ${member.actor && html`<span class="note"><${Code} text=${member.actor.message_type} /> · ${queuedText(member.actor)} queued</span>`}</div>
    ${verb && html`<p class="chain-verb"><${Icon} name="down" size=${12} /> ${visible(verb)}</p>`}</li>`;
}
