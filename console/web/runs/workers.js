// The workers of a store: their leases, runs that changed workers, runs that nobody serves, and how
// far the clock of the store is from that of the console.

import { html } from "../lib.js";
import { link } from "../router.js";
import { store } from "../sources.js";
import { Shown } from "../states.js";
import { count, plural, visible } from "../text.js";
import { duration } from "../time.js";
import { Badge, Section, Table, Time } from "../ui.js";
import { useFresh } from "./live.js";
import { NoStore, RunLink, StoreHead } from "./parts.js";
import { command } from "./shell.js";

/** A difference of clocks above this is worth a look: leases last 30 s. */
const CLOCK_LIMIT_US = 2_000_000;

export function Page() {
  const { key, target } = store.value ?? {};
  if (!key) return html`<${NoStore} title="Workers" />`;
  const query = { view: "workers", store: key };
  return html`<${StoreHead} title="Workers" query=${query} command=${command("pleach", "doctor", target ?? "STORE")} /><${Workers} query=${query} />`;
}

function Workers({ query }) {
  const view = useFresh(query);
  return html`<${Shown} of=${view} rows=${8}>${({ workers, takeovers, unserved, clock, is_cut: isCut }) => html`
    <${Section} title="Runs that nobody serves">
      ${unserved.length === 0
        ? html`<p><${Badge} tone="ok">served<//> Workers serve every run that can continue.</p>`
        : html`<${Table} label="Runs that nobody serves" columns=${UNSERVED} rows=${unserved} keyOf=${(one) => [one.graph, one.fingerprint, one.schema].join("|")} />
          <p class="note after-table">Start a worker with this version of the graph, or see what a program would serve: <a href=${link("/deploy", { store: query.store })}>deploy check</a>.</p>`}
    <//>
    <${Section} title="Workers" aside=${isCut && "Not all runs were read: these counts are lower limits."}>
      ${workers.length === 0
        ? html`<p class="note">No worker executes a run now. A worker is shown while it holds a lease.</p>`
        : html`<${Table} label="Workers" columns=${WORKERS} rows=${workers} keyOf=${(one) => one.name} />`}
    <//>
    <${Section} title="Takeovers without progress">
      ${takeovers.length === 0
        ? html`<p class="note">No run had to be taken over from a lost worker since its last record.</p>`
        : html`<${Table} label="Runs that were taken over" columns=${TAKEOVERS} rows=${takeovers} keyOf=${(one) => one.run} />`}
    <//>
    <${Clock} clock=${clock} />`}<//>`;
}

const UNSERVED = [
  { title: "Graph", cell: (one) => html`<span class="mono">${visible(one.graph)}</span> <small title=${visible(one.fingerprint)}>schema ${one.schema}, <span class="mono">${visible(one.fingerprint).slice(0, 12)}…</span></small>` },
  { title: "Runs", align: "end", cell: (one) => html`<strong>${count(one.runs)}</strong>` },
  { title: "Why", wide: true, cell: (one) => html`<span class="run-reason">${visible(one.reason)}</span>` },
  { title: "Such as", cell: (one) => html`<span class="samples">${one.samples.slice(0, 3).map((run) => html`<${RunLink} key=${run} run=${run} />`)}</span>` },
];

const WORKERS = [
  { title: "Worker", wide: true, cell: (one) => html`<span class="mono">${visible(one.name)}</span>` },
  { title: "Leases", cell: (one) => (one.late > 0 ? html`<${Badge} tone="error">${plural(one.late, "lease")} ended<//>` : html`<${Badge} tone="ok">renewed<//>`) },
  { title: "Runs", align: "end", cell: (one) => count(one.runs) },
  { title: "Next lease ends", cell: (one) => html`<${Time} at=${one.soonest_end} form="ago" />` },
];

const TAKEOVERS = [
  { title: "Run", cell: (one) => html`<${RunLink} run=${one.run} />` },
  { title: "Graph", cell: (one) => html`<span class="mono">${visible(one.graph)}</span>` },
  { title: "Takeovers", align: "end", cell: (one) => count(one.takeovers) },
  { title: "Driver", wide: true, cell: (one) => (one.driver ? html`<span class="mono">${visible(one.driver)}</span>` : html`<span class="note">nobody</span>`) },
  { title: "Changed", cell: (one) => html`<${Time} at=${one.changed} form="ago" />` },
];

function Clock({ clock }) {
  if (!clock) return null;
  const difference = clock.difference_us;
  const isWell = Math.abs(difference) <= CLOCK_LIMIT_US;
  const text = Math.abs(difference) < 1000 ? "less than 1 ms from" : `${duration(Math.abs(difference))} ${difference < 0 ? "behind" : "ahead of"}`;
  return html`<${Section} title="Clocks"><p><${Badge} tone=${isWell ? "ok" : "warning"}>${isWell ? "fine" : "look"}<//> The clock of the store is ${text} that of this console.
    ${isWell ? "" : " Workers use the clock of the store, so leases are safe; the times of leases look wrong here by this much."}</p><//>`;
}
