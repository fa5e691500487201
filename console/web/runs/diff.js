// Shows how two texts differ, as lines that Rust compared. Long parts that are the same are folded.

import { html, useState } from "../lib.js";
import { plural, visible } from "../text.js";
import { foldLines } from "./diff-model.js";

const SIGNS = { same: " ", added: "+", removed: "−" };
const WORDS = { same: "", added: "added: ", removed: "removed: " };

/** Shows lines with `kind` (`same`, `added`, `removed`) and `text`. */
export function DiffLines({ lines, label }) {
  const [open, setOpen] = useState(() => new Set());
  const show = (key) => setOpen((now) => new Set([...now, key]));
  const parts = foldLines(lines);
  if (parts.every((part) => part.kind === "folded")) return html`<p class="note">The two states are the same, ${plural(lines.length, "line")}.</p>`;
  return html`<div class="diff" role="group" tabindex="0" aria-label=${label}>
    ${parts.map((part) => part.kind === "folded" && !open.has(part.from)
      ? html`<button type="button" class="diff-fold" key=${part.from} onClick=${() => show(part.from)}>${plural(part.lines.length, "line")} the same</button>`
      : html`<div class="diff-part" key=${part.from}>${part.lines.map((line) => html`<${Line} ...${line} />`)}</div>`)}
  </div>`;
}

function Line({ kind, text, before, after }) {
  return html`<div class="diff-line ${kind}">
    <span class="diff-number" aria-hidden="true">${before ?? ""}</span><span class="diff-number" aria-hidden="true">${after ?? ""}</span>
    <span class="diff-sign" aria-hidden="true">${SIGNS[kind]}</span><span class="unseen">${WORDS[kind]}</span>
    <code class="diff-text">${visible(text.replace(/\n$/, ""))}</code>
  </div>`;
}
