// The story of each restart: the failure, the strategy, the decision and its reason, the delay, who
// else went down, and what became of it.

import { html, useEffect, useState } from "../lib.js";
import { getView } from "../api.js";
import { useLive, useOnce } from "../live.js";
import { Dialog, JsonButton, openDialog } from "../dialog.js";
import { Icon } from "../icons.js";
import { Badge, Block, Button, Code, CopyButton, Path, Section, Time } from "../ui.js";
import { Empty, Failed, Missing, Shown } from "../states.js";
import { count, plural, sentence, visible, words } from "../text.js";
import { duration } from "../time.js";
import { endOf, episodesOf, limitOf } from "./story-model.js";

/** How many entries are shown live. */
export const STORY_LIMIT = 50;

const ENDS = {
  gave_up: ["error", "error", "gave up"], restarted: ["warning", "restarting", "restarted"], stopped: ["error", "stopped", "stopped"],
  resumed: ["warning", "right", "resumed"], open: ["warning", "clock", "not over"],
};

/** The section of a page. */
export function Story({ process, path }) {
  const query = { view: "story", process, path, limit: STORY_LIMIT };
  const view = useLive(query);
  return html`<${Section} title="What happened" aside=${html`<${JsonButton} query=${query} />`}>
    <${Shown} of=${view} rows=${4}>${(value) => html`<${Entries} value=${value} query=${query} process=${process} path=${path} />`}<//><//>`;
}

function Entries({ value, query, process, path }) {
  const { entries, next, isBusy, error, read } = useOlder(value, query);
  if (entries.length === 0) {
    return html`<${Empty} title="Nothing happened while the console watched"
      text="No failure, decision, restart or end was reported here. The console keeps what it hears from the process while it runs." />`;
  }
  return html`${value.missed > 0 && html`<${Missing}>${plural(value.missed, "older entry", "older entries")} of this process could not be kept.<//>`}
    <ol class="story">${episodesOf(entries).map((episode) => html`<${Episode} key=${episode.seq} episode=${episode} process=${process} path=${path} />`)}</ol>
    ${error && html`<${Failed} title="Older entries could not be read" error=${error} onRetry=${read} />`}
    ${next !== null && next !== undefined && !error && html`<${Button} disabled=${isBusy} onClick=${read}>${isBusy ? "Reading …" : "Show older"}<//>`}`;
}

/** Pages before the live one, read on request. */
function useOlder(value, query) {
  const [older, setOlder] = useState({ entries: [], next: undefined, isBusy: false, error: null });
  useEffect(() => setOlder({ entries: [], next: undefined, isBusy: false, error: null }), [query.process, query.path]);
  const next = older.next === undefined ? value.next : older.next;
  const read = async () => {
    setOlder((before) => ({ ...before, isBusy: true, error: null }));
    try {
      const page = await getView({ ...query, before: next });
      setOlder((before) => ({ entries: [...before.entries, ...page.entries], next: page.next, isBusy: false, error: null }));
    } catch (error) {
      setOlder((before) => ({ ...before, isBusy: false, error }));
    }
  };
  const known = new Set(value.entries.map(({ seq }) => seq));
  return { ...older, entries: [...value.entries, ...older.entries.filter(({ seq }) => !known.has(seq))], next, read };
}

function Episode({ episode, process, path }) {
  const { failure, decisions, outcomes, at } = episode;
  if (!failure) return html`<${Event} entry=${decisions[0] ?? outcomes[0]} process=${process} path=${path} />`;
  const [tone, icon, word] = ENDS[endOf(episode)];
  const { reason, origin, message, incarnation, metadata } = failure.failure ?? {};
  return html`<li class="episode"><span class=${`episode-mark tone-${tone}`}><${Icon} name=${icon} size=${14} /></span><div class="episode-body">
    <p class="episode-head"><${Time} at=${at} /> <${Badge} tone=${tone} icon=${icon}>${word}<//>
      ${episode.path !== path && html`<${Path} path=${episode.path} process=${process} />`}</p>
    <p class="episode-reason">${visible(reason ?? failure.text, { lines: true })}</p>
    <dl class="steps">
      <${Step} title="While">${message ? html`handling <${Code} text=${message} />` : "not handling a message"}${incarnation !== null && incarnation !== undefined && html` · incarnation ${count(incarnation)}`}
        ${origin && origin !== episode.path && html` · first at <${Path} path=${origin} process=${process} />`}<//>
      ${decisions.map((entry) => html`<${Decision} key=${entry.seq} entry=${entry} process=${process} />`)}
      ${outcomes.map((entry) => html`<${Step} key=${entry.seq} title=${sentence(words(entry.kind))}><${Time} at=${entry.at} /> ${visible(entry.text)}<//>`)}
      ${metadata && Object.keys(metadata).length > 0 && html`<${Step} title="With"><${Metadata} metadata=${metadata} /><//>`}
    </dl>
    <${Button} kind="quiet" class="episode-test" icon="copy" onClick=${() => openTest({ process, path: episode.path, seq: failure.seq })}>Copy as test<//>
  </div></li>`;
}

function Step({ title, children }) {
  return html`<div><dt>${title}</dt><dd>${children}</dd></div>`;
}

function Metadata({ metadata }) {
  const pairs = Array.isArray(metadata) ? metadata.map((pair) => (Array.isArray(pair) ? pair : [pair.key ?? "", pair.value ?? pair])) : Object.entries(metadata);
  return pairs.map(([key, value], index) => html`<span class="chip" key=${index}>${visible(key)}=${visible(typeof value === "string" ? value : JSON.stringify(value))}</span> `);
}

/** What was decided, by whom, and how far the limit was used. */
function Decision({ entry, process }) {
  const { directive, supervisor, strategy, delay_us: delay, window_us: windowUs, also = [] } = entry.decision ?? {};
  const limit = limitOf(entry.decision);
  return html`<${Step} title="Decided"><strong>${directive ? sentence(words(directive)) : visible(entry.text)}</strong>
      ${supervisor && html` by <${Path} path=${supervisor} process=${process} />`}${strategy && html` · strategy ${words(strategy)}`}<//>
    ${limit && html`<${Step} title="Limit"><${Pips} ...${limit} /> ${count(limit.used)} of ${count(limit.limit)}${windowUs ? ` in ${duration(windowUs)}` : ""}${limit.isExceeded ? html` <${Badge} tone="error">exceeded<//>` : ""}<//>`}
    ${delay > 0 && html`<${Step} title="Delay">${duration(delay)} before the start<//>`}
    ${also.length > 0 && html`<${Step} title="With it">${plural(also.length, "other member")} went down: ${also.map((other, index) => html`${index > 0 && ", "}<${Path} key=${other} path=${other} process=${process} />`)}<//>`}`;
}

/** The used part of a limit as marks; none for large limits. */
export function Pips({ used, limit, isExceeded = used > limit }) {
  if (limit > 12) return null;
  const marks = Array.from({ length: Math.max(limit, Math.min(used, 12)) }, (_, index) => (index < limit ? index < used : "over"));
  return html`<span class=${`pips ${isExceeded ? "tone-error" : "tone-warning"}`} aria-hidden="true">${marks.map((mark, index) => html`<i key=${index} class=${mark === "over" ? "pip-over" : mark ? "pip-used" : ""}></i>`)}</span>`;
}

/** An entry that belongs to no failure. */
function Event({ entry, process, path }) {
  return html`<li class="episode episode-small"><span class="episode-mark"><${Icon} name="idle" size=${10} /></span><p class="episode-head"><${Time} at=${entry.at} />
    <span>${visible(sentence(words(entry.kind)))}</span> ${entry.path !== path && html`<${Path} path=${entry.path} process=${process} />`}<span class="note">${visible(entry.text)}</span>
    ${entry.failure?.reason && html`<span class="event-cause"><span class="lead">Because</span> ${entry.failure.origin && entry.failure.origin !== entry.path && html`<${Path} path=${entry.failure.origin} process=${process} /> failed: `}${visible(entry.failure.reason)}</span>`}</p></li>`;
}

/** Shows a test in Rust that starts where something failed. `from` are parameters of the view. */
export function openTest(from) {
  openDialog((close) => html`<${TestDialog} from=${from} onClose=${close} />`);
}

function TestDialog({ from, onClose }) {
  const view = useOnce({ view: "test", ...from });
  return html`<${Dialog} title="A test that starts here" class="dialog-wide" onClose=${onClose}><${Shown} of=${view}>${({ text, notes }) => html`
    ${[notes].flat().filter(Boolean).map((note, index) => html`<p key=${index} class="note">${visible(note)}</p>`)}
    <${Block} text=${text} label="Test" /><div class="dialog-foot"><${CopyButton} kind="primary" text=${text}>Copy the test<//></div>`}<//><//>`;
}
