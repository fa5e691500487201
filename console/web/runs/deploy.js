// The deploy check: which unfinished runs a new program would not serve, why, and what to do.

import { classes, html, useState } from "../lib.js";
import { useOnce } from "../live.js";
import { store } from "../sources.js";
import { Empty, Shown } from "../states.js";
import { bytes, count, visible } from "../text.js";
import { Badge, Button, Table } from "../ui.js";
import { countOf, NoStore, RunLink, StoreHead } from "./parts.js";
import { command } from "./shell.js";
import { fitOf } from "./words.js";

/** The largest export that is sent, in characters. */
const EXPORT_MAX = 900_000;

export function Page() {
  const { key, target, graphs: known } = store.value ?? {};
  const [graphs, setGraphs] = useState("");
  const [previous, setPrevious] = useState("");
  if (!key) return html`<${NoStore} title="Deploy check" />`;
  const query = { view: "deploy", store: key, ...(graphs && { graphs }), ...(previous && { previous }) };
  const hasGraphs = graphs !== "" || known > 0;
  const words = ["pleach", "check", target ?? "STORE", "--graphs", "graphs.json", ...(previous ? ["--previous", "previous.json"] : [])];
  return html`<${StoreHead} title="Deploy check" query=${hasGraphs && query} command=${command(...words)}>
      <p class="run-lead">Which unfinished runs would a new program not serve?</p><//>
    <div class="exports">
      <${Export} id="graphs" title="The new program" about=${html`The JSON of <code class="code">Worker::exports</code>. ${known > 0 && "Without it, the graphs of the running program are checked."}`} text=${graphs} onText=${setGraphs} />
      <${Export} id="previous" title="The present program" about="Optional. Also finds runs whose course changes." text=${previous} onText=${setPrevious} />
    </div>
    ${hasGraphs
      ? html`<${Report} query=${query} by=${graphs ? "the program of this export" : "the running program"} />`
      : html`<${Empty} icon="deploy" title="Give the graphs of the new program" text="The console then says which unfinished runs it would not serve, and why. Nothing is changed." />`}`;
}

/** A field that takes a file, a dropped file or pasted text. */
function Export({ id, title, about, text, onText }) {
  const [name, setName] = useState(null);
  const [problem, setProblem] = useState(null);
  const [isOver, setIsOver] = useState(false);
  const [isPasting, setIsPasting] = useState(false);
  const take = (given, from) => {
    const isLarge = given.length > EXPORT_MAX;
    setProblem(isLarge ? "This export has more than 900 KB. Check it with the command above." : null);
    if (isLarge || given.trim() === "") return;
    setName(from);
    setIsPasting(false);
    onText(given.trim());
  };
  const read = async (file) => file && take(await file.text(), file.name);
  const onDrag = (is) => (event) => {
    event.preventDefault();
    setIsOver(is);
    if (event.type === "drop") void read(event.dataTransfer.files[0]);
  };
  const submit = (event) => {
    event.preventDefault();
    take(event.currentTarget.elements.text.value, "pasted text");
  };
  const remove = () => {
    setName(null);
    onText("");
  };
  return html`<section class=${classes("card", "export", isOver && "is-over")} aria-labelledby="${id}-title" onDragOver=${onDrag(true)} onDragLeave=${onDrag(false)} onDrop=${onDrag(false)}>
    <h2 id="${id}-title">${title}</h2><p class="note" id="${id}-about">${about}</p>
    ${text
      ? html`<p class="export-ways"><span class="mono">${visible(name)}</span> <span class="note">${bytes(text.length)}</span> <${Button} kind="quiet" icon="close" onClick=${remove}>Remove<//></p>`
      : html`<p class="export-ways"><label class="button export-file">Choose a file<input type="file" class="unseen" accept=".json,application/json" aria-describedby="${id}-about" onChange=${(event) => read(event.currentTarget.files[0])} /></label>
          <${Button} aria-expanded=${String(isPasting)} onClick=${() => setIsPasting(!isPasting)}>Paste<//><span class="note">or drop it here</span></p>`}
    ${isPasting && html`<form class="export-paste" onSubmit=${submit}><textarea name="text" rows="5" class="is-code" aria-label=${`${title}: JSON`} spellcheck=${false}></textarea><button type="submit" class="button button-primary">Check</button></form>`}
    ${problem && html`<p class="field-problem" role="alert">${problem}</p>`}
  </section>`;
}

function Report({ query, by }) {
  const view = useOnce(query);
  return html`<${Shown} of=${view}>${({ unserved, checked, is_cut: isCut, groups, runs_in_other_groups: others }) => html`
    <p class="verdict" role="status"><${Badge} tone=${unserved > 0 ? "error" : "ok"}>${unserved > 0 ? "Not yet" : "Ready"}<//>
      <span>${unserved > 0
        ? `${countOf(unserved, isCut, "unfinished run")} of ${count(checked)}${isCut ? "+" : ""} would not be served by ${by}.`
        : checked === 0 ? "There are no unfinished runs." : `All of ${countOf(checked, isCut, "unfinished run")} would be served by ${by}.`}</span>
      <${Button} kind="quiet" onClick=${view.reload}>Check again<//></p>
    ${groups.length > 0 && html`<${Table} label="Groups of runs" columns=${COLUMNS} rows=${groups.toSorted((a, b) => rank(a) - rank(b) || b.runs - a.runs)}
      keyOf=${(group) => [group.fit, group.graph, group.fingerprint, group.schema, group.node].join("|")} />`}
    ${others > 0 && html`<p class="note after-table">${count(others)} runs are in further groups.</p>`}`}<//>`;
}

function rank(group) {
  const { isServed, isChange } = fitOf(group.fit);
  return isServed ? (isChange ? 1 : 2) : 0;
}

function Served({ fit }) {
  const { isServed, isChange } = fitOf(fit);
  if (!isServed) return html`<${Badge} tone="error">no<//>`;
  return isChange ? html`<${Badge} tone="warning">yes, look<//>` : html`<${Badge} tone="ok">yes<//>`;
}

const COLUMNS = [
  { title: "Served", cell: (group) => html`<${Served} fit=${group.fit} />` },
  { title: "Runs", align: "end", cell: (group) => html`<strong>${count(group.runs)}</strong>` },
  { title: "Graph", cell: (group) => html`<span class="mono">${visible(group.graph)}</span>${group.node && html` at <span class="mono">${visible(group.node)}</span>`}<br /><small title=${visible(group.fingerprint)}>schema ${group.schema}, <span class="mono">${visible(group.fingerprint).slice(0, 12)}…</span></small>` },
  { title: "Why, and what to do", wide: true, cell: (group) => html`${fitOf(group.fit).text}${group.advice && html`<br /><strong>${visible(group.advice)}</strong>`}` },
  { title: "Such as", cell: (group) => html`<span class="samples">${group.samples.slice(0, 3).map((run) => html`<${RunLink} key=${run} run=${run} />`)}</span>` },
];
