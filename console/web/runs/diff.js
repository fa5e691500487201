// Shows how two texts differ, as lines that Rust compared. Long parts that are the same are folded.

import { h } from "../vendor/preact.js";
import { useState } from "../vendor/hooks.js";
import htm from "../vendor/htm.js";
import { foldLines } from "./diff-model.js";

const html = htm.bind(h);

const SIGNS = { same: " ", added: "+", removed: "−" };
const WORDS = { same: "", added: "added: ", removed: "removed: " };

/** Shows lines with `kind` (`same`, `added`, `removed`) and `text`. */
export function DiffLines({ lines, label }) {
  const [open, setOpen] = useState(() => new Set());
  const show = (key) => setOpen((now) => new Set([...now, key]));
  const parts = foldLines(lines);
  if (parts.every((part) => part.kind === "folded")) return html`<p class="quiet">The two states are the same, ${lines.length} lines.</p>`;
  return html`<div class="diff" role="group" tabindex="0" aria-label=${label}>
    ${parts.map((part) => part.kind === "folded" && !open.has(part.from)
      ? html`<button type="button" class="diff-fold" key=${part.from} onClick=${() => show(part.from)}>${part.lines.length} lines that are the same</button>`
      : html`<div class="diff-part" key=${part.from}>${part.lines.map((line) => html`<${Line} ...${line} />`)}</div>`)}
  </div>`;
}

function Line({ kind, text, before, after }) {
  return html`<div class="diff-line ${kind}">
    <span class="diff-number" aria-hidden="true">${before ?? ""}</span><span class="diff-number" aria-hidden="true">${after ?? ""}</span>
    <span class="diff-sign" aria-hidden="true">${SIGNS[kind]}</span><span class="visually-hidden">${WORDS[kind]}</span>
    <code class="diff-text">${visible(text)}</code>
  </div>`;
}

function visible(text) {
  return text.replace(/\n$/, "");
}
