// The difference of the states at two records, of one run or of two. Rust compares; every digit counts.

import { html } from "../lib.js";
import { useOnce } from "../live.js";
import { change } from "../router.js";
import { Empty, Shown } from "../states.js";
import { bytes, visible } from "../text.js";
import { Command, Section, Table } from "../ui.js";
import { DiffLines } from "./diff.js";
import { changesText } from "./diff-model.js";
import { command } from "./shell.js";
import { leftOut } from "./value-model.js";
import { JsonButton } from "../dialog.js";

const isRecord = (text) => /^[1-9][0-9]*$/.test(text ?? "");

/** Shows the comparison that the URL names, and a form for another one. */
export function Compare({ store, target, run, show, params }) {
  const other = params.get("other") || null;
  const from = isRecord(params.get("from")) ? Number(params.get("from")) : null;
  const to = isRecord(params.get("to")) ? Number(params.get("to")) : null;
  const query = from && to ? { view: "diff", store, run, from, to, ...(other && { other_run: other }) } : null;
  const submit = (event) => {
    event.preventDefault();
    const { elements } = event.currentTarget;
    change({ from: elements.from.value, to: elements.to.value, other: elements.other.value.trim() }, { replace: false });
  };
  const number = (name, text, value) => html`<label class="field"><span>${text}</span><input name=${name} type="number" min="1" defaultValue=${value} value=${value} required /></label>`;
  const words = command("pleach", "runs", "diff", target, run, String(from), String(to));
  return html`<${Section} title="Compare states" aside=${query && html`${!other && html`<${Command} text=${words} />`}<${JsonButton} query=${query} />`}>
    <form class="compare-form" key=${`${from} ${to} ${other}`} onSubmit=${submit}>
      ${number("from", "From record", from ?? Math.max(show.oldest_record, show.record - 1))}${number("to", "To record", to ?? show.record)}
      <label class="field"><span>Of the run <small>empty: this one</small></span><input name="other" defaultValue=${other ?? ""} value=${other ?? ""} autocomplete="off" spellcheck=${false} placeholder=${run} /></label>
      <button type="submit" class="button button-primary">Compare</button>
    </form>
    ${query ? html`<${Lines} key=${JSON.stringify(query)} query=${query} />` : html`<${Empty} icon="search" title="Choose two records" text="Their states are compared line by line." />`}
  <//>`;
}

function Lines({ query }) {
  const view = useOnce(query);
  return html`<${Shown} of=${view}>${({ lines, patch, is_cut: isCut }) => (Array.isArray(lines)
    ? html`<p class="note counted">${changesText(lines)}</p><${DiffLines} lines=${lines} label="Difference of the states" />`
    : html`<p class="note counted">The states have up to ${bytes(leftOut(lines))}, too much to show line by line. These are the changes${isCut ? ", as far as they are listed" : ""}:</p><${Changes} patch=${patch} />`)}<//>`;
}

const CHANGES = [
  { title: "Change", cell: ({ op }) => visible(op) },
  { title: "Where", cell: ({ path }) => html`<span class="mono">${visible(path)}</span>` },
  { title: "New value", wide: true, cell: ({ value }) => (leftOut(value) ? html`<small>${bytes(leftOut(value))}</small>` : html`<span class="mono">${visible(value ?? "")}</span>`) },
];

/** The operations of a patch, for states that are too large to compare by line. */
function Changes({ patch }) {
  if (!Array.isArray(patch)) return html`<pre class="block" tabindex="0" role="region" aria-label="Patch">${visible(patch, { lines: true })}</pre>`;
  return html`<${Table} label="Changes" columns=${CHANGES} rows=${patch} />`;
}
