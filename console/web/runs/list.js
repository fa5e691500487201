// The page of runs: filters that are the options of `pleach runs list`, a page of runs with the
// newest first, groups, and actions on all runs that match.

import { html } from "../lib.js";
import { useOnce } from "../live.js";
import { go, hrefOf } from "../router.js";
import { store } from "../sources.js";
import { Missing, Shown } from "../states.js";
import { count, plural, visible } from "../text.js";
import { Button, Choice, Table, Time } from "../ui.js";
import { Bulk } from "./bulk.js";
import { FilterBar } from "./filter-bar.js";
import { fromUrl, GROUPS, narrows, toCommand, toRequest, toUrl } from "./filters.js";
import { useHeldList } from "./live.js";
import { countOf, NoStore, Pager, RunLink, ShowNew, Status, StoreHead, Tags } from "./parts.js";

/** The runs of a page. */
const PAGE = 50;

export function Page({ params }) {
  const { key, target } = store.value ?? {};
  if (!key) return html`<${NoStore} title="Runs" />`;
  const filters = fromUrl(params);
  const after = params.get("after");
  const linkTo = (changed = {}, more = {}) => hrefOf("/runs", { store: key, ...toUrl({ ...filters, ...changed }), ...more });
  const by = filters["group-by"];
  const query = by
    ? { view: "run_groups", store: key, group_by: by, filters: toRequest(filters) }
    : { view: "runs", store: key, filters: toRequest(filters), limit: PAGE, ...(after && { after }) };
  const command = toCommand(filters, target ?? "STORE") + (after && !by ? ` --after ${after}` : "");
  return html`<${StoreHead} title="Runs" query=${query} command=${command} />
    <${FilterBar} filters=${filters} onFilters=${(changed) => go(linkTo(changed))} />
    <div class="list-tools">
      <${Choice} label="Group by" value=${by} options=${[["", "List"], ...GROUPS.map((name) => [name, `By ${name}`])]} onChoose=${(name) => go(linkTo({ "group-by": name }))} />
      <${Bulk} filters=${filters} bulk=${params.get("bulk")} linkTo=${(bulk) => linkTo({}, { bulk })} />
    </div>
    ${by ? html`<${Groups} query=${query} by=${by} linkTo=${linkTo} />` : html`<${List} query=${query} filters=${filters} linkTo=${linkTo} isNewest=${!after} />`}`;
}

const LIST = { rowsOf: (page) => page.runs, withRows: (page, runs) => ({ ...page, runs }), keyOf: (run) => run.id };

function List({ query, filters, linkTo, isNewest }) {
  const list = useHeldList(query, { ...LIST, isLive: isNewest });
  const empty = narrows(filters)
    ? { title: "No run matches these filters", icon: "search", children: html`<p><a href=${linkTo({ ...fromUrl(new URLSearchParams()) })}>Show all runs</a></p>` }
    : { title: "This store has no runs", icon: "runs" };
  return html`<${ShowNew} number=${list.fresh} one="run" many="runs" onShow=${list.showFresh} />
    <${Shown} of=${list} rows=${8} isEmpty=${({ runs, damaged }) => runs.length + (damaged?.length ?? 0) === 0} empty=${empty}>${(page) => html`
      <${Damaged} runs=${page.damaged ?? []} />
      <${Table} label="Runs, the newest first" columns=${COLUMNS} rows=${page.runs} keyOf=${(run) => run.id} />
      <${Pager} label="Pages of runs" text=${plural(page.runs.length, "run") + (page.next || !isNewest ? " on this page" : "")}
        newest=${isNewest ? null : linkTo()} older=${page.next ? linkTo({}, { after: page.next }) : null} />`}<//>`;
}

const COLUMNS = [
  { title: "Run", cell: (run) => html`<${RunLink} run=${run.id} />` },
  { title: "Status", cell: (run) => html`<${Status} status=${run.status} />` },
  { title: "Graph", cell: (run) => html`<span class="mono">${visible(run.graph)}</span>` },
  { title: "What happened", wide: true, cell: (run) => html`<${Happened} run=${run} />` },
  { title: "Record", align: "end", cell: (run) => count(run.record) },
  { title: "Changed", cell: (run) => html`<${Time} at=${run.changed} form="ago" />` },
];

/** The trouble, the failure, the driver or the tags of a run, whichever matters most. */
function Happened({ run }) {
  if (run.trouble) return html`<span class="run-reason">${visible(run.trouble)}</span>`;
  if (run.failure && run.status !== "finished") return html`<span class="run-reason">${run.failure.node && html`<span class="mono">${visible(run.failure.node)}</span>: `}${visible(run.failure.reason)}</span>`;
  return html`<span class="happened">${run.driver && html`<span class="note">driven by <span class="mono">${visible(run.driver)}</span></span>`}<${Tags} tags=${run.tags} /></span>`;
}

function Damaged({ runs }) {
  if (runs.length === 0) return null;
  return html`<${Missing}>${plural(runs.length, "run")} of this page cannot be read: ${runs.map(({ id, reason }, at) => html`${at > 0 && "; "}<span class="mono">${visible(id)}</span>: ${visible(reason)}`)}<//>`;
}

const GROUP_TITLES = { error: "Reason", graph: "Graph", status: "Status" };

function Groups({ query, by, linkTo }) {
  const groups = useOnce(query);
  const name = (group) => {
    if (by === "status") return html`<a href=${linkTo({ "group-by": "", status: group.name, failed: false })}><${Status} status=${group.name} /></a>`;
    if (by === "graph") return html`<a class="mono" href=${linkTo({ "group-by": "", graph: group.name })}>${visible(group.name)}</a>`;
    return html`<span class="run-reason">${visible(group.name)}</span>`;
  };
  const columns = [
    { title: GROUP_TITLES[by], wide: true, cell: name },
    { title: "Runs", align: "end", cell: (group) => html`<strong>${count(group.runs)}</strong>` },
    { title: "First", cell: (group) => html`<${Time} at=${group.first_changed} />` },
    { title: "Last", cell: (group) => html`<${Time} at=${group.last_changed} form="ago" />` },
    { title: "Newest run", cell: (group) => html`<${RunLink} run=${group.newest_run} />` },
  ];
  const empty = { title: by === "error" ? "No matching run has failed" : "No run matches these filters", icon: by === "error" ? "ok" : "search" };
  return html`<${Shown} of=${groups} isEmpty=${(value) => value.groups.length === 0} empty=${empty}>${(value) => html`
    <p class="note counted">${countOf(value.counted, value.is_cut, "run")} in ${plural(value.groups.length, "group")}${value.is_cut ? "; more were not counted" : ""}
      <${Button} kind="quiet" onClick=${groups.reload}>Count again<//></p>
    <${Table} label="Runs by ${GROUP_TITLES[by].toLowerCase()}" columns=${columns} rows=${value.groups} keyOf=${(group) => group.name} />`}<//>`;
}
