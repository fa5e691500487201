// The small parts of every page: badges, buttons, times, paths, copying.

import { classes, computed, html, signal, useEffect, useRef, useState } from "./lib.js";
import { Icon } from "./icons.js";
import { connection } from "./live.js";
import { link } from "./router.js";
import { ago, fileTime, fullTime, shortTime, zone } from "./time.js";
import { visible } from "./text.js";

/** A status: a shape and a word. `tone`: `ok`, `error`, `warning`, `waiting`, `busy`, `quiet`. */
export function Badge({ tone = "quiet", icon, children, title }) {
  const shape = icon ?? { ok: "ok", error: "error", warning: "warning", waiting: "waiting", busy: "right" }[tone] ?? "idle";
  return html`<span class=${`badge tone-${tone}`} title=${title}><${Icon} name=${shape} size=${12} />${children}</span>`;
}

/** A button. `kind`: `plain`, `primary`, `danger`, `quiet`. With `icon` alone it needs `label`. */
export function Button({ kind = "plain", icon, label, children, class: more, ...rest }) {
  const isBare = !children || (Array.isArray(children) && children.length === 0);
  return html`<button type="button" class=${classes("button", `button-${kind}`, isBare && "button-bare", more)}
    aria-label=${isBare ? label : undefined} title=${label} ...${rest}>
    ${icon && html`<${Icon} name=${icon} />`}${children}</button>`;
}

/** The text of a program in the font of code, with control characters made visible. */
export function Code({ text, title }) {
  return html`<code class="code" title=${title}>${visible(text)}</code>`;
}

/** A longer text of a program; line breaks stay. */
export function Block({ text, label }) {
  return html`<pre class="block" tabindex="0" role="region" aria-label=${label}>${visible(text, { lines: true })}</pre>`;
}

const tick = signal(Date.now());
let tickers = 0;
let timer = null;

/** The time of the console, as far as the stream tells: it stands still while the stream is lost. */
export const consoleNow = computed(() => {
  const { state, at } = connection.value;
  const known = at ? Date.parse(at) : null;
  if (known === null) return tick.value;
  return state === "connected" ? Math.max(known, tick.value) : known;
});

function useTick() {
  useEffect(() => {
    tickers += 1;
    timer ??= setInterval(() => document.visibilityState === "visible" && (tick.value = Date.now()), 1000);
    return () => {
      tickers -= 1;
      if (tickers === 0) timer = clearInterval(timer) ?? null;
    };
  }, []);
}

/** A time. `form`: `short` (default), `full`, `ago`. The full time is always in its title. */
export function Time({ at, form = "short" }) {
  const name = zone.value;
  if (form === "ago") return html`<${Ago} at=${at} />`;
  const text = form === "full" ? fullTime(at, name) : shortTime(at, name);
  return html`<time class="time" datetime=${fileTime(at)} title=${fullTime(at, name)}>${text}</time>`;
}

function Ago({ at }) {
  useTick();
  return html`<time class="time" datetime=${fileTime(at)} title=${fullTime(at, zone.value)}>${ago(at, consoleNow.value)}</time>`;
}

/** The path of a member, as a link to its page. Long paths are cut at the front. */
export function Path({ path, process, plain = false }) {
  const end = path.lastIndexOf("/");
  const text = html`<span class="path-front">${visible(path.slice(0, end + 1))}</span><span class="path-name">${visible(path.slice(end + 1))}</span>`;
  if (plain) return html`<span class="path" title=${visible(path)}>${text}</span>`;
  return html`<a class="path" href=${link("/member", { process, path })} title=${visible(path)}>${text}</a>`;
}

/** Copies a text, and says so. */
export function CopyButton({ text, label = "Copy", icon = "copy", kind = "quiet", children }) {
  const [said, setSaid] = useState(null);
  const reset = useRef(null);
  const copy = async () => {
    clearTimeout(reset.current);
    setSaid((await copyText(typeof text === "function" ? text() : text)) ? "Copied" : "Not copied");
    reset.current = setTimeout(setSaid, 1600, null);
  };
  useEffect(() => () => clearTimeout(reset.current), []);
  return html`<${Button} kind=${kind} icon=${said === "Copied" ? "ok" : icon} label=${said ?? label} onClick=${copy}>${children && (said ?? children)}<//>
    <span class="unseen" role="status">${said}</span>`;
}

/** Copies a text. Returns false if the browser refuses. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** A command, with a button that copies it. */
export function Command({ text }) {
  if (!text) return null;
  return html`<span class="command"><${Icon} name="command" size=${14} /><code tabindex="0" aria-label="Command">${visible(text)}</code>
    <${CopyButton} text=${text} label="Copy as command" /></span>`;
}

/** A choice of a few, as buttons of which one is pressed. `options`: pairs of value and text. */
export function Choice({ label, options, value, onChoose }) {
  return html`<div class="choice" role="group" aria-label=${label}>
    ${options.map(([key, text]) => html`<button type="button" key=${key} aria-pressed=${String(key === value)} onClick=${() => onChoose(key)}>${text}</button>`)}
  </div>`;
}

/** A filter by text. It reports what was typed once typing pauses. `/` moves the focus here. */
export function FilterBox({ label, value, onChange, placeholder }) {
  const [text, setText] = useState(value);
  const timer = useRef(null);
  const shown = useRef(value);
  if (shown.current !== value) {
    shown.current = value;
    setText(value);
  }
  const type = (event) => {
    const typed = event.currentTarget.value;
    setText(typed);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      shown.current = typed;
      onChange(typed);
    }, 200);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  return html`<label class="filter"><${Icon} name="search" size=${14} /><span class="unseen">${label}</span>
    <input type="search" data-filter value=${text} placeholder=${placeholder ?? label} onInput=${type} spellcheck=${false} autocomplete="off" /></label>`;
}

const ANNOUNCE_MS = 5000;

/** Tells screen readers a summary when it changes, at most every 5 s. Nothing is seen. */
export function Announce({ text }) {
  const [said, setSaid] = useState("");
  const last = useRef({ text, at: 0 });
  useEffect(() => {
    if (last.current.text === text) return undefined;
    const timer = setTimeout(() => {
      last.current = { text, at: Date.now() };
      setSaid(text);
    }, Math.max(0, last.current.at + ANNOUNCE_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [text]);
  return html`<span class="unseen" role="status">${said}</span>`;
}

/** The head of a page: its title, what belongs beside it, and its tools. */
export function PageHead({ title, children, tools }) {
  return html`<div class="page-head"><div class="page-title"><h1 tabindex="-1">${title}</h1>${children}</div>
    ${tools && html`<div class="tools">${tools}</div>`}</div>`;
}

/** A part of a page with a heading. */
export function Section({ title, aside, children, class: more, level = 2 }) {
  return html`<section class=${classes("section", more)}><div class="section-head">
    ${level === 2 ? html`<h2>${title}</h2>` : html`<h3>${title}</h3>`}${aside && html`<div class="section-aside">${aside}</div>`}</div>${children}</section>`;
}

/**
 * A plain table. `columns`: `title`, `cell(row)`, and optionally `align` (`end`), `wide` (takes the
 * room), `class`. On narrow screens each row becomes a card with the titles beside the values.
 */
export function Table({ label, columns, rows, keyOf }) {
  return html`<div class="table-frame"><table class="table"><caption class="unseen">${label}</caption>
    <thead><tr>${columns.map(({ title, align, wide }) => html`<th scope="col" class=${classes(align && `align-${align}`, wide && "wide")}>${title}</th>`)}</tr></thead>
    <tbody>${rows.map((row, index) => html`<tr key=${keyOf ? keyOf(row) : index}>
      ${columns.map(({ title, cell, align, class: more }) => html`<td data-title=${title} class=${classes(align && `align-${align}`, more)}>${cell(row)}</td>`)}
    </tr>`)}</tbody></table></div>`;
}
