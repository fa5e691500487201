// Members that call for a look, with the reasons of the process's health.

import { html, useEffect, useState } from "../lib.js";
import { getView } from "../api.js";
import { useLive } from "../live.js";
import { holdProps, HeldNote, useHeldRows } from "../held.js";
import { Badge, Button, Path, Table } from "../ui.js";
import { Empty, Failed, Shown } from "../states.js";
import { plural, visible } from "../text.js";
import { concernOf } from "./words.js";
import { FailedCount, Queued, Restarts, State } from "./tree-rows.js";

export const notWellQuery = (process, path) => ({ view: "not_well", process, path });

export function NotWell({ process, path }) {
  const query = notWellQuery(process.key, path);
  const view = useLive(query);
  return html`<${Shown} of=${view} rows=${8}>${(value) => html`<${Reasons} reasons=${value.reasons ?? []} /><${Members} value=${value} query=${query} path=${path} />`}<//>`;
}

/** Why the process says that it does not do its work. */
export function Reasons({ reasons }) {
  if (reasons.length === 0) return null;
  return html`<ul class="reasons">${reasons.map((reason, index) => html`<li key=${index}><${Badge} tone="warning">${visible(String(reason.kind).replaceAll("_", " "))}<//>
    <span>${visible(reason.sentence ?? "")}</span>${reason.path && html`<${Path} path=${reason.path} />`}</li>`)}</ul>`;
}

function Members({ value, query, path }) {
  const { members, more, next, isBusy, error, read } = useMore(value, query);
  const held = useHeldRows([...members, ...more], (member) => member.path, query.path);
  if (held.rows.length === 0) {
    return html`<${Empty} title=${next ? "Nothing in the part that was examined" : "Everything is well"}
      text=${`${next ? "A part of the" : "All"} members below ${visible(path)} were examined: none is suspended, restarting, stopping, slow or full, and none failed lately.`} />
      <${More} next=${next} isBusy=${isBusy} error=${error} onMore=${read} />`;
  }
  const columns = [
    { title: "Member", wide: true, cell: (member) => html`<${Path} path=${member.path} />` },
    { title: "Now", cell: (member) => html`<${State} member=${member} />` },
    { title: "Why it is here", cell: (member) => visible(concernOf(member)?.text ?? member.last_failure?.reason ?? "named by a reason above") },
    { title: "Queued", align: "end", cell: ({ actor }) => html`<${Queued} actor=${actor} />` },
    { title: "Failed", align: "end", cell: ({ actor }) => html`<${FailedCount} actor=${actor} />` },
    { title: "Restarts", align: "end", cell: (member) => html`<${Restarts} member=${member} />` },
  ];
  return html`<div ...${holdProps(held.hold)}><${Table} label="Members that are not well" columns=${columns} rows=${held.rows} keyOf=${(member) => member.path} /></div>
    <p class="grid-foot">${plural(held.rows.length, "member")}${next ? ", and more may follow" : ""}. <${HeldNote} held=${held} /></p>
    <${More} next=${next} isBusy=${isBusy} error=${error} onMore=${read} />`;
}

/** Pages after the live one, read on request. */
function useMore(value, query) {
  const [state, setState] = useState({ more: [], next: null, isRead: false, isBusy: false, error: null });
  useEffect(() => setState({ more: [], next: null, isRead: false, isBusy: false, error: null }), [JSON.stringify(query)]);
  const next = state.isRead ? state.next : value.next;
  const read = async () => {
    setState((before) => ({ ...before, isBusy: true, error: null }));
    try {
      const page = await getView({ ...query, cursor: next });
      setState((before) => ({ more: [...before.more, ...page.members], next: page.next, isRead: true, isBusy: false, error: null }));
    } catch (error) {
      setState((before) => ({ ...before, isBusy: false, error }));
    }
  };
  const known = new Set(value.members.map(({ path }) => path));
  return { ...state, members: value.members, more: state.more.filter(({ path }) => !known.has(path)), next, read };
}

function More({ next, isBusy, error, onMore }) {
  return html`${error && html`<${Failed} title="The next part could not be read" error=${error} onRetry=${onMore} />`}
    ${next && !error && html`<${Button} disabled=${isBusy} onClick=${onMore}>${isBusy ? "Examining …" : "Examine more members"}<//>`}`;
}
