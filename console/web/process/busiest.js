// The members with the most of something. The process compares and sorts; the order on the screen
// stays while the reader is in the list.

import { html, useMemo } from "../lib.js";
import { useLive } from "../live.js";
import { change, go, link } from "../router.js";
import { Grid } from "../grid.js";
import { HeldNote, useHeldRows } from "../held.js";
import { Choice, Path } from "../ui.js";
import { Empty, Missing, Shown } from "../states.js";
import { count, rate, visible } from "../text.js";
import { duration } from "../time.js";
import { concernOf } from "./words.js";
import { FailedCount, Queued, Restarts, State } from "./tree-rows.js";

const BY = [["queued", "Queued"], ["rate", "Rate"], ["handling", "Handling"], ["restarts", "Restarts"], ["failed", "Failed"], ["children", "Children"]];

/** The query of the URL. The tree starts at `/user`, unless the reader chose another start. */
export function topQuery(process, path, params) {
  const by = BY.some(([name]) => name === params.get("by")) ? params.get("by") : "queued";
  return { view: "top", process, path: path === "/" ? "/user" : path, by, contains: params.get("contains") || undefined, limit: 100 };
}

export function Busiest({ process, path, params }) {
  const query = topQuery(process.key, path, params);
  const view = useLive(query, { keep: true });
  const filter = params.get("contains");
  return html`<div class="bar"><${Choice} label="Sort by" options=${BY} value=${query.by} onChoose=${(by) => change({ by: by === "queued" ? null : by })} /></div>
    <${Shown} of=${view} rows=${12}>${(value) => html`<${Rows} value=${value} query=${query} filter=${filter} />`}<//>`;
}

function Rows({ value, query, filter }) {
  const held = useHeldRows(value.rows, ({ member }) => member.path, `${query.by} ${filter}`);
  const columns = useMemo(() => columnsOf(query.by), [query.by]);
  const { compared, sums, is_complete: isComplete, is_cut: isCut } = value;
  if (value.rows.length === 0) {
    return html`<${Empty} icon="search" title=${filter ? "No actor has this in its path" : "No actors here"} text=${`${count(compared)} actors below ${visible(query.path)} were compared.`} />`;
  }
  return html`<${Grid} label="Busiest members" columns=${columns} total=${held.rows.length} rowAt=${(index) => held.rows[index]} keyOf=${({ member }) => member.path}
      onHold=${held.hold} onEnter=${({ member }) => go(link("/member", { path: member.path }))} toneOf=${({ member }) => (concernOf(member) ? "concern" : null)} />
    <p class="grid-foot">${count(value.rows.length)} of ${count(compared)} compared actors${sums ? `, ${count(sums.queued)} messages queued in all` : ""}. <${HeldNote} held=${held} /></p>
    ${isComplete === false && html`<${Missing}>There are more members than were compared.<//>`}
    ${isCut && html`<${Missing}>Rows are missing, because the answer would be too long.<//>`}`;
}

function columnsOf(by) {
  const columns = [
    { key: "path", title: "Member", width: "minmax(11rem, 2.4fr)", cell: ({ member }) => html`<${Path} path=${member.path} />` },
    { key: "state", title: "Now", width: "minmax(7.5rem, 12rem)", from: 30, cell: ({ member }) => html`<${State} member=${member} />` },
    { key: "queued", title: "Queued", width: "8.5rem", from: 42, align: "end", cell: ({ member }) => html`<${Queued} actor=${member.actor} />` },
    { key: "rate", title: "In / s", width: "6rem", from: 50, align: "end", cell: (row) => rate(row.accepted_per_s) },
    { key: "out", title: "Out / s", width: "6rem", from: 62, align: "end", cell: (row) => rate(row.handled_per_s) },
    { key: "handling", title: "In handler", width: "7rem", from: 76, align: "end", cell: ({ member }) => (member.activity.state === "handling" ? duration(member.activity.for_us) : "") },
    { key: "failed", title: "Failed", width: "5.5rem", from: 56, align: "end", cell: ({ member }) => html`<${FailedCount} actor=${member.actor} />` },
    { key: "restarts", title: "Restarts", width: "6rem", from: 70, align: "end", cell: ({ member }) => html`<${Restarts} member=${member} />` },
    { key: "children", title: "Children", width: "6rem", from: 90, align: "end", cell: ({ member }) => count(member.children) },
  ];
  return columns.map((column) => (column.key === by ? { ...column, from: 0, title: `${column.title} ↓` } : column));
}
