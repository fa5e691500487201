// What waits for people, in every run of a store: for how long, for what, with a form for the
// answer, and why earlier answers were refused.

import { classes, html } from "../lib.js";
import { hrefOf } from "../router.js";
import { store } from "../sources.js";
import { Shown } from "../states.js";
import { visible } from "../text.js";
import { Badge, Time } from "../ui.js";
import { useHeldList } from "./live.js";
import { NoStore, Pager, RunLink, ShowNew, StoreHead } from "./parts.js";
import { command } from "./shell.js";
import { Wait } from "./wait.js";

const PAGE = 25;

const LIST = {
  rowsOf: (page) => page.waits,
  withRows: (page, waits) => ({ ...page, waits }),
  keyOf: ({ run, key, kind, branch }) => JSON.stringify([run, key, kind, branch]),
};

export function Page({ params }) {
  const { key, target } = store.value ?? {};
  if (!key) return html`<${NoStore} title="Waiting for people" />`;
  const after = params.get("after");
  const query = { view: "waiting", store: key, limit: PAGE, ...(after && { after }) };
  return html`<${StoreHead} title="Waiting for people" query=${query} command=${command("pleach", "runs", "list", target ?? "STORE", "--status", "waiting")} />
    <${Waits} query=${query} isNewest=${!after} />`;
}

function Waits({ query, isNewest }) {
  const list = useHeldList(query, { ...LIST, isLive: isNewest });
  const empty = { title: "No run waits for a person", text: "Runs that ask a question or wait for a signal appear here.", icon: "people" };
  return html`<${ShowNew} number=${list.fresh} one="wait" many="waits" onShow=${list.showFresh} />
    <${Shown} of=${list} isEmpty=${({ waits, next }) => waits.length === 0 && !next} empty=${empty}>${({ waits, next }) => html`
      <ul class="wait-list">${waits.map((wait) => html`<li key=${LIST.keyOf(wait)}><${WaitCard} wait=${wait} isGone=${list.gone.has(LIST.keyOf(wait))} /></li>`)}</ul>
      <${Pager} label="Pages of waits" newest=${isNewest ? null : hrefOf("/waiting", { store: query.store })} older=${next ? hrefOf("/waiting", { store: query.store, after: next }) : null} olderText="More" />`}<//>`;
}

function WaitCard({ wait, isGone }) {
  return html`<article class=${classes("card", "wait-card", isGone && "is-gone")}>
    <header class="wait-of"><h2><${RunLink} run=${wait.run} /></h2><span class="note"><span class="mono">${visible(wait.graph)}</span> at <span class="mono">${visible(wait.node)}</span></span>
      <span class="wait-since note">began to wait <${Time} at=${wait.since} form="ago" /></span></header>
    ${isGone ? html`<p><${Badge} tone="quiet" icon="ok">does not wait any more<//></p>` : html`<${Wait} run=${wait.run} wait=${wait} />`}
  </article>`;
}
