// Shows a value of a program one level at a time. The server sends each level as texts, so numbers
// keep every digit, and a large value costs only what is opened.

import { html, useState } from "../lib.js";
import { download } from "../api.js";
import { useOnce } from "../live.js";
import { Shown } from "../states.js";
import { bytes, count, visible } from "../text.js";
import { Button, CopyButton } from "../ui.js";
import { layOut } from "./exact-json.js";
import { child, levelText } from "./value-model.js";

/** Shows a state or a question. `source` has `store`, `run` and, if given, `record` or `question`. */
export function Value({ source, label }) {
  const [isText, setIsText] = useState(false);
  const state = useOnce({ view: "value", ...source, pointer: "", first: 0 });
  const level = state.value;
  return html`<div class="value" role="group" aria-label=${label}>
    <div class="value-tools">
      <span class="note">${level && `${levelText(level.kind, level.total ?? 0)}, ${bytes(level.bytes)}`}</span>
      ${level?.entries && html`<${Button} kind="quiet" aria-pressed=${String(isText)} onClick=${() => setIsText(!isText)}>${isText ? "Show as tree" : "Show as text"}<//>`}
      ${level?.text && html`<${CopyButton} text=${level.text} label="Copy the exact text" />`}
      <${DownloadButton} query=${{ view: "value", ...source }} name="${source.run}-${source.question ?? source.record ?? "state"}.json" />
    </div>
    <${Shown} of=${state} rows=${3}>${(value) => isText || !value.entries
      ? html`<${WholeText} level=${value} label=${label} />`
      : html`<${Entries} source=${source} pointer="" level=${value} />`}<//>
  </div>`;
}

/** Saves a view as a file, and says why if it cannot. */
export function DownloadButton({ query, name, text, kind = "quiet", label = "Download" }) {
  const [problem, setProblem] = useState(null);
  const onClick = () => download(query, name).then(() => setProblem(null), (error) => setProblem(error.text));
  return html`<${Button} kind=${kind} icon="save" label=${label} onClick=${onClick}>${text}<//>
    ${problem && html`<span class="field-problem" role="alert">${visible(problem)}</span>`}`;
}

/** The exact text of a level, laid out in lines. */
function WholeText({ level, label }) {
  if (typeof level.text !== "string") return html`<p class="note">This text has ${bytes(level.bytes)}: download it.</p>`;
  return html`<pre class="block" tabindex="0" role="region" aria-label=${label ?? "Text"}>${visible(layOut(level.text), { lines: true })}</pre>`;
}

function Entries({ source, pointer, level }) {
  const [pages, setPages] = useState([]);
  const size = level.entries.length;
  const shown = pages.length === 0 ? size : pages.at(-1).end;
  const total = level.total ?? size;
  const isItem = level.kind === "array";
  if (total === 0) return html`<p class="note">${isItem ? "no items" : "no fields"}</p>`;
  const next = Math.min(size, total - shown);
  return html`<ul class="value-entries">
    ${level.entries.map((entry) => html`<${Entry} key=${entry.key} source=${source} pointer=${child(pointer, entry.key)} entry=${entry} isItem=${isItem} />`)}
    ${pages.map(({ first }) => html`<${MoreEntries} key=${first} source=${source} pointer=${pointer} first=${first} isItem=${isItem} />`)}
    ${next > 0 && size > 0 && html`<li><${Button} kind="quiet" icon="down" onClick=${() => setPages([...pages, { first: shown, end: shown + next }])}>
      ${count(total - shown)} more: show ${count(next)}<//></li>`}
  </ul>`;
}

function MoreEntries({ source, pointer, first, isItem }) {
  const state = useOnce({ view: "value", ...source, pointer, first });
  return html`<li class="value-more"><${Shown} of=${state} rows=${2}>${(level) => html`<ul class="value-entries">${level.entries.map((entry) =>
    html`<${Entry} key=${entry.key} source=${source} pointer=${child(pointer, entry.key)} entry=${entry} isItem=${isItem} />`)}</ul>`}<//></li>`;
}

function Entry({ source, pointer, entry, isItem }) {
  const [isOpen, setIsOpen] = useState(false);
  const isLevel = entry.kind === "object" || entry.kind === "array";
  const hasText = typeof entry.text === "string";
  const canOpen = isLevel ? entry.bytes > 2 : !hasText;
  const name = html`<span class=${isItem ? "value-key value-item" : "value-key"}>${visible(entry.key)}</span>`;
  const value = html`<span class="value-shown value-${entry.kind}">${hasText ? visible(entry.text) : html`<small>${entry.kind}, ${bytes(entry.bytes)}</small>`}</span>`;
  if (!canOpen) return html`<li><div class="value-line"><span class="value-place"></span>${name}${value}</div></li>`;
  return html`<li>
    <button type="button" class="value-line" aria-expanded=${String(isOpen)} onClick=${() => setIsOpen(!isOpen)}>
      <span class="disclosure" aria-hidden="true"></span>${name}${isOpen ? null : value}</button>
    ${isOpen && html`<${Opened} source=${source} pointer=${pointer} label=${visible(entry.key)} />`}
  </li>`;
}

function Opened({ source, pointer, label }) {
  const state = useOnce({ view: "value", ...source, pointer, first: 0 });
  return html`<div class="value-opened"><${Shown} of=${state} rows=${2}>${(level) => level.entries
    ? html`<${Entries} source=${source} pointer=${pointer} level=${level} />`
    : html`<${WholeText} level=${level} label=${label} />`}<//></div>`;
}
