// The graph of a run on its page: the drawing, the table beside it, and what to do without one.

import { html, useState } from "../lib.js";
import { useOnce } from "../live.js";
import { Failed, Loading, OutOfDate } from "../states.js";
import { visible } from "../text.js";
import { Badge, Choice, Section, Table } from "../ui.js";
import { GraphDrawing } from "./graph.js";
import { nameOf, NODES_MAX, tableOf } from "./graph-model.js";
import { useFresh } from "./live.js";

const TONES = { failed: "error", waiting: "waiting", current: "busy", visited: "ok" };

/** Shows the graph of the run `show`, marked with its positions. */
export function Graph({ store, show }) {
  const [graphs, setGraphs] = useState(null);
  const query = { view: "graph", store, run: show.id, ...(graphs && { graphs }) };
  return graphs ? html`<${Given} query=${query} show=${show} />` : html`<${Live} query=${query} show=${show} onGraphs=${setGraphs} />`;
}

function Live({ query, show, onGraphs }) {
  const view = useFresh(query);
  if (view.status === "error" && view.error.code === "not_found") return html`<${Unknown} show=${show} error=${view.error} onGraphs=${onGraphs} />`;
  return html`<${Part} show=${show} view=${view} />`;
}

/** With the export of a program, which is too long for the stream. */
function Given({ query, show }) {
  return html`<${Part} show=${show} view=${useOnce(query)} />`;
}

function Part({ show, view }) {
  const [asked, setAsked] = useState(null);
  const [selected, setSelected] = useState(null);
  const nodes = view.value?.layout.nodes.length ?? 0;
  const form = asked ?? (nodes > NODES_MAX ? "table" : "drawing");
  const choice = html`<${Choice} label="Form of the graph" value=${form} options=${[["drawing", "Drawing"], ["table", "Table"]]} onChoose=${setAsked} />`;
  return html`<${Section} title="Graph" class="graph-part" aside=${choice}>
    ${view.status === "loading" ? html`<${Loading} rows=${6} />` : view.status === "error" ? html`<${Failed} error=${view.error} onRetry=${view.reload} />` : html`
      ${view.isOld && html`<${OutOfDate} of=${view} />`}
      ${form === "drawing"
        ? html`<${GraphDrawing} name=${show.graph} layout=${view.value.layout} marks=${view.value.marks} selected=${selected} onSelect=${setSelected} />`
        : html`<${Table} label="Nodes of the graph ${visible(show.graph)}" columns=${COLUMNS} rows=${tableOf(view.value.layout, view.value.marks)} keyOf=${(row) => row.id} />`}`}
  <//>`;
}

const COLUMNS = [
  { title: "Node", cell: (row) => html`<span class="mono">${visible(row.name)}</span>` },
  { title: "State", wide: true, cell: (row) => (row.state ? html`<${Badge} tone=${TONES[row.state]} icon=${row.state === "current" ? "right" : undefined}>${row.notes.join(", ")}<//>` : html`<span class="note">not reached</span>`) },
  { title: "Leads to", cell: (row) => row.leads.map((edge) => `${visible(nameOf({ id: edge.to }))}${edge.label ? ` (${visible(edge.label)})` : edge.kind === "fallback" ? " (fallback)" : ""}`).join(", ") },
];

/** The console does not know the graph: a person can give the export of the program. */
function Unknown({ show, error, onGraphs }) {
  const read = async (event) => onGraphs(await event.currentTarget.files[0].text());
  return html`<${Section} title="Graph" class="graph-part"><div class="card graph-unknown">
    <p>This console does not know the graph <span class="mono">${visible(show.graph)}</span> in this version.</p>
    <p class="note">${visible(error.advice ?? error.text)}</p>
    <label class="button export-file">Choose its export<input type="file" class="unseen" accept=".json,application/json" onChange=${read} /></label></div><//>`;
}
