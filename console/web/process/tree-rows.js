// The tree by window: only the rows on the screen are asked for, whatever the size of the tree.
//
// The open branches are in the URL. Rows are asked for in pieces of equal size, so that scrolling
// asks for new pieces and the others stay.

import { html, useCallback, useMemo, useRef, useState } from "../lib.js";
import { useLiveMany } from "../live.js";
import { change, go, link } from "../router.js";
import { Icon, KindIcon } from "../icons.js";
import { Grid } from "../grid.js";
import { Badge } from "../ui.js";
import { Failed, Loading, OutOfDate } from "../states.js";
import { count, nameOf, parentOf, pathsTo, plural, short, visible, words } from "../text.js";
import { piecesOf } from "../window.js";
import { activityOf, concernOf, isFilling, queuedText, restartsShort, restartsText } from "./words.js";

/** Rows in a piece. A frame of the stream has room for about 70 members. */
const PIECE_ROWS = 40;
/** Branches that are open if the URL does not say. */
const OPEN = ["/", "/user"];
/** Rows that are remembered. */
const ROWS_MAX = 4000;
/** More open branches than the console takes. */
const OPEN_MAX = 1000;

/** The open branches of a URL. */
export function openOf(params, path) {
  const given = params.getAll("open");
  if (given.length === 0) return path === "/" ? OPEN : [path];
  return given.filter((open) => open.startsWith("/"));
}

const pieceQuery = (process, path, open, first, size) => ({ view: "tree", process, path, open, first, count: size });

/** The first piece of the tree, for its JSON. */
export function firstQuery(process, path, params) {
  return pieceQuery(process, path, openOf(params, path), 0, PIECE_ROWS);
}

export function TreeRows({ process, path, params }) {
  const open = openOf(params, path);
  const { known, rowAt, total, state, onWindow, top } = useRows(process.key, path, open);
  const toggle = useCallback((row, isOpen) => {
    const at = row.member.path;
    const next = isOpen ? [...open, at].slice(-OPEN_MAX) : open.filter((other) => other !== at);
    change({ open: next.length === 0 ? ["none"] : next });
  }, [open.join("\n")]);
  const columns = useMemo(() => columnsOf(toggle), [toggle]);
  if (state.status === "loading") return html`<${Loading} rows=${12} />`;
  if (state.status === "error") return html`<${Failed} title="The tree could not be read" error=${state.error} />`;
  const tree = {
    levelOf: ({ depth }) => depth + 1, onToggle: toggle,
    isOpen: ({ member, is_open: isOpen }) => (member.children > 0 ? isOpen : undefined),
    parentOf: ({ member }) => indexOf(known, parentOf(member.path)),
    placeOf: ({ member }, index) => placeOf(known, open, member.path, index),
  };
  return html`${state.isOld && html`<${OutOfDate} of=${state} />`}
    <${Grid} label=${`Members below ${visible(path)}`} columns=${columns} total=${total} rowAt=${rowAt} keyOf=${keyOf} tree=${tree} onWindow=${onWindow}
      onEnter=${(row) => go(hrefOf(row))} toneOf=${({ member }) => (concernOf(member) ? "concern" : null)} />
    <p class="grid-foot">${plural(total, "row")} with the open branches<${Where} path=${top} start=${path} /></p>`;
}

/** The way from the root to the first visible row, while the list is scrolled. */
function Where({ path, start }) {
  const above = path && path !== start ? parentOf(path) : null;
  if (above === null || above === start) return null;
  return html`<span class="where"> · the first row is in ${pathsTo(above).slice(1).map((at, index) => html`<a key=${at} class="path" href=${link("/tree", { path: at })}>${index === 0 ? "/" : ""}${visible(nameOf(at))}${at === above ? "" : "/"}</a>`)}</span>`;
}

const keyOf = ({ member }) => member.path;

/** A run leads to its page; another member to its own. */
function hrefOf(row) {
  const run = row.run ?? row.member.run;
  return run ? link("/run", { store: run.store, run: run.id }) : link("/member", { path: row.member.path });
}

/** The row of a path, if it was read; else null. */
function indexOf(known, path) {
  const index = known.indexes.get(path);
  return index !== undefined && known.rows.get(index)?.member.path === path ? index : null;
}

/** The place of a member among its siblings: known unless a sibling above it may be open. */
function placeOf(known, open, path, index) {
  const above = parentOf(path);
  const parent = above === null ? null : indexOf(known, above);
  if (parent === null) return {};
  const setsize = known.rows.get(parent).member.children;
  const below = above === "/" ? "/" : `${above}/`;
  const isPlain = !open.some((other) => other !== above && other.startsWith(below));
  return { setsize, posinset: isPlain ? index - parent : undefined };
}

/** Forgets rows that are far from the screen, but not open branches. */
function prune(known, { first, end }) {
  if (known.rows.size <= ROWS_MAX) return;
  for (const [index, row] of known.rows) {
    if (row.is_open || (index > first - ROWS_MAX / 4 && index < end + ROWS_MAX / 4)) continue;
    known.rows.delete(index);
    known.indexes.delete(row.member.path);
  }
}

/** Asks for the pieces on the screen. Rows of the former answer stay until the new ones come. */
function useRows(process, path, open) {
  const [needed, setNeeded] = useState({ first: 0, end: PIECE_ROWS, top: 0 });
  const [size, setSize] = useState(PIECE_ROWS);
  const former = useRef({ total: 0, rows: new Map(), indexes: new Map(), text: null });
  const total = former.current.total || PIECE_ROWS;
  const pieces = piecesOf({ ...needed, size, total });
  const answers = useLiveMany(pieces.map((first) => pieceQuery(process, path, open, first, size)));
  const known = former.current;
  const text = open.join("\n");
  if (known.text !== text && answers.some(({ status }) => status === "ready")) Object.assign(known, { text, rows: new Map(), indexes: new Map() });
  for (const { value } of answers) {
    if (!value) continue;
    known.total = value.total;
    value.rows.forEach((row, index) => {
      if (!row.member) return;
      known.rows.set(value.first + index, row);
      known.indexes.set(row.member.path, value.first + index);
    });
  }
  prune(known, needed);
  const isTooLarge = ({ value, error }) => error?.code === "too_large" || value?.rows.some(({ member }) => !member);
  if (size > 5 && answers.some(isTooLarge)) setSize(Math.ceil(size / 2));
  const failed = answers.find(({ error }) => error && error.code !== "too_large");
  const first = answers.find(({ status }) => status === "ready");
  const status = first || known.rows.size > 0 ? "ready" : failed ? "error" : "loading";
  const onWindow = useCallback((from, end, top) => setNeeded({ first: from, end, top }), []);
  const state = { status, error: failed?.error ?? null, isOld: answers.every(({ isOld, status: one }) => one === "ready" && isOld) || Boolean(failed), at: (first ?? answers[0]).at };
  return { known, rowAt: (index) => (index < known.total ? known.rows.get(index) : undefined), total: known.total, state, onWindow, top: known.rows.get(needed.top)?.member.path };
}

function columnsOf(toggle) {
  return [
    { key: "name", title: "Member", width: "minmax(11rem, 2.4fr)", cell: (row) => html`<${Name} row=${row} onToggle=${toggle} />` },
    { key: "state", title: "Now", width: "minmax(7.5rem, 13.5rem)", from: 30, cell: ({ member }) => html`<${State} member=${member} />` },
    { key: "queued", title: "Queued", width: "8.5rem", from: 42, align: "end", cell: ({ member }) => html`<${Queued} actor=${member.actor} />` },
    { key: "handled", title: "Handled", width: "7rem", from: 60, align: "end", cell: ({ member }) => member.actor && count(member.actor.counts.handled) },
    { key: "failed", title: "Failed", width: "5.5rem", from: 52, align: "end", cell: ({ member }) => html`<${FailedCount} actor=${member.actor} />` },
    { key: "restarts", title: "Restarts", width: "6rem", from: 70, align: "end", cell: ({ member }) => html`<${Restarts} member=${member} />` },
    { key: "last", title: "Last failure", width: "minmax(8rem, 1.6fr)", from: 84, cell: ({ member }) => html`<span class="cut" title=${visible(member.last_failure?.reason)}>${visible(member.last_failure?.reason)}</span>` },
  ];
}

function Name({ row, onToggle }) {
  const { member, depth, is_open: isOpen } = row;
  const indent = { paddingInlineStart: `${depth * 1.15}rem` };
  const concern = concernOf(member);
  return html`<span class="tree-name" style=${indent}>
    ${member.children > 0 ? html`<button type="button" class="twisty" tabindex="-1" aria-hidden="true" onClick=${() => onToggle(row, !isOpen)}><${Icon} name=${isOpen ? "down" : "right"} size=${12} /></button>` : html`<span class="twisty"></span>`}
    <span class="kind" title=${words(member.kind)}><${KindIcon} kind=${member.kind} /></span>
    <a class="path cut" tabindex="-1" href=${hrefOf(row)}>${visible(nameOf(member.path))}</a>
    ${member.children > 0 && html`<span class="tree-count" title="Children">${count(member.children)}</span>`}
    ${concern && html`<span class="tone-warning mark" title=${visible(concern.text)}><${Icon} name="warning" size=${13} label=${concern.text} /></span>`}</span>`;
}

/** What a member does, as a badge. */
export function State({ member }) {
  const { tone, icon, text } = activityOf(member);
  return html`<${Badge} tone=${tone} icon=${icon}>${text}<//>`;
}

/** The length of the queue, marked if the mailbox is nearly full. */
export function Queued({ actor }) {
  if (!actor) return null;
  return html`<span class=${isFilling(actor) ? "tone-warning marked" : actor.queued === 0 ? "zero" : ""} title=${`${queuedText(actor)} queued`}>${count(actor.queued)}${actor.capacity && actor.queued > 0 ? html` <small>of ${short(actor.capacity)}</small>` : ""}</span>`;
}

/** How many messages failed. */
export function FailedCount({ actor }) {
  if (!actor) return null;
  const { failed } = actor.counts;
  return html`<span class=${failed > 0 ? "tone-error marked" : "zero"}>${count(failed)}</span>`;
}

/** How much of the restart limit is used. */
export function Restarts({ member: { restarts } }) {
  if (!restarts) return null;
  return html`<span class=${restarts.used > 0 ? "tone-warning marked" : "zero"} title=${restartsText(restarts)}>${restartsShort(restarts)}</span>`;
}
