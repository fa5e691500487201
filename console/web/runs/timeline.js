// The records of a run: headers only, the newest first, one page at a time.
//
// A page is named by its URL, so a run of a million records costs one page. The newest page follows
// the run, except while the pointer or the focus is in it: then new records are announced.

import { classes, html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { getView } from "../api.js";
import { useLive, useOnce } from "../live.js";
import { go } from "../router.js";
import { Failed, Shown } from "../states.js";
import { count, plural, visible } from "../text.js";
import { Button, Section, Time } from "../ui.js";
import { Pager, ShowNew } from "./parts.js";
import { branchText, byBranch, byNode, firstFailure, fold, foldText, isFailure, KINDS, recordText } from "./timeline-model.js";

/** The records of a page. */
const PAGE = 200;

/** The pages of 500 records that one search reads. */
const SEARCHED_PAGES = 20;

/** The branches of a fan-out that are listed before a person asks for more. */
const BRANCHES_SHOWN = 50;

/** The records above one that a jump leads to. */
const ABOVE = 8;

/**
 * Shows the timeline of `run` (an id) in `store`. `before` is the number of the first record that is
 * not shown, or null for now. `failed` is the record of the present failure, or null. `record` is
 * selected; `onRecord` gets the record that a person chooses; `linkTo(params)` is the URL of a page.
 */
export function Timeline({ store, run, before, failed, record, onRecord, linkTo }) {
  const query = { view: "timeline", store, run, limit: PAGE, ...(before ? { before } : {}) };
  const state = useOnce(query);
  const newest = useLive(before ? null : { view: "timeline", store, run, limit: 1 }).value?.record ?? 0;
  const hold = useHold();
  const fresh = state.value && !before ? Math.max(0, newest - state.value.record) : 0;
  useEffect(() => {
    if (fresh > 0 && !hold.isHeld.current) state.reload();
  }, [fresh]);
  return html`<${Section} title="Timeline" class="timeline" aside=${html`<${Jumps} ...${{ store, run, failed, linkTo, oldest: state.value?.oldest_record ?? 1 }} />`}>
    <div ...${hold.handlers}>
      <${ShowNew} number=${fresh} one="record" many="records" onShow=${state.reload} />
      <${Shown} of=${state} isEmpty=${({ records }) => records.length === 0} empty=${{ title: "No records here", text: "Older records may have been pruned.", icon: "clock" }}>
        ${(page) => html`<${Page} ...${{ page, record, onRecord, linkTo, isNow: !before }} />`}<//>
    </div>
  <//>`;
}

/** Knows whether the pointer or the focus is in a part of the page. */
function useHold() {
  const isHeld = useRef(false);
  const set = (is) => () => {
    isHeld.current = is;
  };
  return { isHeld, handlers: { onPointerEnter: set(true), onPointerLeave: set(false), onFocusIn: set(true), onFocusOut: set(false) } };
}

function Page({ page, record, onRecord, linkTo, isNow }) {
  const folds = useMemo(() => fold(page.records), [page]);
  const [open, setOpen] = useState(() => new Map());
  const { records, next } = page;
  const isOpen = (one) => open.get(one.key) ?? holds(one, record);
  const toggle = (one) => setOpen(new Map(open).set(one.key, !isOpen(one)));
  const from = records.at(-1).record;
  const list = useRef(null);
  useEffect(() => {
    if (record !== null) list.current.querySelector(`[data-record="${record}"]`)?.scrollIntoView({ block: "nearest" });
  }, [page, record]);
  const text = html`Records ${count(from)} to ${count(records[0].record)} of ${count(page.record)}${page.oldest_record > 1 && from <= page.oldest_record ? `; those before ${count(page.oldest_record)} were pruned` : ""}`;
  return html`<ol class="folds" ref=${list}>
      ${folds.map((one) => html`<${Fold} key=${one.key} one=${one} isOpen=${isOpen(one)} onToggle=${() => toggle(one)} record=${record} onRecord=${onRecord} />`)}
    </ol>
    <${Pager} label="Pages of the timeline" text=${text} newest=${isNow ? null : linkTo({ before: null, record: null })} older=${next ? linkTo({ before: from, record: null }) : null} />`;
}

function holds(one, record) {
  return record !== null && one.records.length > 1 && one.from <= record && record <= one.to;
}

/** Leads to the first failure, the present one, any record, and to now. */
function Jumps({ store, run, failed, linkTo, oldest }) {
  const [search, setSearch] = useState({ next: null, searched: 0, isBusy: false, said: null, error: null });
  const isHere = useRef(true);
  useEffect(() => () => {
    isHere.current = false;
  }, []);
  const show = (number) => go(linkTo({ before: number + ABOVE, record: number }));
  const find = async () => {
    setSearch({ ...search, isBusy: true, error: null });
    try {
      const page = (from) => getView({ view: "timeline", store, run, from, limit: 500 });
      const found = await firstFailure(page, search.next ?? oldest, SEARCHED_PAGES);
      if (!isHere.current) return;
      const searched = search.searched + found.searched;
      const said = found.record ? null : found.next ? `None in the first ${count(searched)} records.` : "No record tells of a failure.";
      setSearch({ next: found.next, searched: found.next ? searched : 0, isBusy: false, said, error: null });
      if (found.record) show(found.record);
    } catch (error) {
      if (isHere.current) setSearch({ ...search, isBusy: false, error });
    }
  };
  const onJump = (event) => {
    event.preventDefault();
    const number = Number(event.currentTarget.elements.record.value);
    if (Number.isSafeInteger(number) && number > 0) show(number);
  };
  return html`<div class="jumps">
    ${search.said && html`<span role="status">${search.said}</span>`}
    <${Button} kind="quiet" disabled=${search.isBusy} onClick=${find}>${search.isBusy ? "Searching …" : search.next ? "Search on" : "First failure"}<//>
    ${failed && html`<${Button} kind="quiet" onClick=${() => show(failed)}>Last failure<//>`}
    <a class="button button-quiet" href=${linkTo({ before: null, record: null })}>Now</a>
    <form class="jump" onSubmit=${onJump}><label><span class="unseen">Record</span><input name="record" inputmode="numeric" autocomplete="off" size="7" placeholder="Record" /></label><button type="submit" class="button">Go</button></form>
  </div>${search.error && html`<${Failed} title="The search failed" error=${search.error} onRetry=${find} />`}`;
}

function Fold({ one, isOpen, onToggle, record, onRecord }) {
  if (one.kind === "visit" && one.records.length === 1) {
    return html`<li class="fold"><${Entry} record=${one.records[0]} isSelected=${one.records[0].record === record} onRecord=${onRecord} /></li>`;
  }
  const isFanOut = one.kind === "fan_out";
  return html`<li class=${classes("fold", isOpen && "fold-open")}>
    <button type="button" class="entry" aria-expanded=${String(isOpen)} onClick=${onToggle}>
      <span class="entry-number">${count(one.from)}–${count(one.to)}</span>
      <${Shape} kind=${isFanOut ? "fan_out" : one.failures > 0 ? "attempt" : one.records[0].kind} isFailure=${one.failures > 0} />
      <span class="entry-text"><span class="entry-node">${isFanOut ? plural(one.branches, "branch", "branches") : visible(one.node)}</span>
        <span class="entry-what">${isFanOut ? nodesText(one.records) : foldText(one)}</span>${one.failures > 0 && html`<span class="entry-failed">${count(one.failures)} failed</span>`}</span>
      <${Time} at=${one.at} /><span class="disclosure" aria-hidden="true"></span>
    </button>
    ${isOpen && (isFanOut ? html`<${Branches} ...${{ one, record, onRecord }} />` : html`<${Entries} records=${one.records} ...${{ record, onRecord }} />`)}
  </li>`;
}

function nodesText(records) {
  return byNode(records).map(({ node, count: number }) => `${visible(node)} ${count(number)}×`).join(", ");
}

function Branches({ one, record, onRecord }) {
  const branches = useMemo(() => byBranch(one.records), [one]);
  const at = branches.findIndex(({ records }) => records.some((own) => own.record === record));
  const [shown, setShown] = useState(Math.max(BRANCHES_SHOWN, at + 1));
  const [open, setOpen] = useState(branches[at]?.key ?? null);
  const more = Math.min(BRANCHES_SHOWN * 4, branches.length - shown);
  return html`<ol class="folds folds-inner">
    ${branches.slice(0, shown).map((branch) => html`<li class="fold" key=${branch.key}>
      <button type="button" class="entry" aria-expanded=${String(open === branch.key)} onClick=${() => setOpen(open === branch.key ? null : branch.key)}>
        <span class="entry-number">${branch.from === branch.to ? count(branch.to) : `${count(branch.from)}–${count(branch.to)}`}</span>
        <${Shape} kind=${branch.records[0].kind} isFailure=${branch.failures > 0} />
        <span class="entry-text"><span class="entry-node">${branchText(branch.branch)}</span><span class="entry-what">${nodesText(branch.records)}</span>
          ${branch.failures > 0 && html`<span class="entry-failed">${count(branch.failures)} failed</span>`}</span>
        <${Time} at=${branch.at} /><span class="disclosure" aria-hidden="true"></span>
      </button>
      ${open === branch.key && html`<${Entries} records=${branch.records} ...${{ record, onRecord }} />`}
    </li>`)}
    ${more > 0 && html`<li><${Button} kind="quiet" icon="down" onClick=${() => setShown(shown + more)}>${count(branches.length - shown)} more branches on this page: show ${count(more)}<//></li>`}
  </ol>`;
}

function Entries({ records, record, onRecord }) {
  return html`<ol class="folds folds-inner">${records.map((one) => html`<li class="fold" key=${one.record}><${Entry} record=${one} isSelected=${one.record === record} onRecord=${onRecord} /></li>`)}</ol>`;
}

function Entry({ record, isSelected, onRecord }) {
  const isBad = isFailure(record);
  const branch = branchText(record.branch);
  const what = [KINDS[record.kind] ?? visible(record.kind), record.attempt > 1 && `attempt ${record.attempt}`].filter(Boolean).join(", ");
  return html`<button type="button" class=${classes("entry", isBad && "entry-bad")} aria-pressed=${String(isSelected)} data-record=${record.record} onClick=${() => onRecord(record.record)}>
    <span class="entry-number">${count(record.record)}</span><${Shape} kind=${record.kind} isFailure=${isBad} />
    <span class="entry-text"><span class="entry-node">${visible(record.node) || (record.kind === "damaged" ? "record" : "the run")}${branch && html` <small>${branch}</small>`}</span>
      <span class="entry-what">${what}</span>${recordText(record) && html`<span class=${isBad ? "entry-reason" : "entry-more"}>${visible(recordText(record))}</span>`}</span>
    ${record.at && html`<${Time} at=${record.at} />`}</button>`;
}

/** A shape for each kind of record, beside its word. */
const SHAPES = {
  start: "M3 2v8l7-4z", step: "M2 6.5l3 3L10.5 3", arrive: "M1.5 6h8M6.5 3l3 3-3 3", join: "M2 2l4 4v4.5M10 2L6 6",
  effect: "M6.7 1L2.5 7H6l-.7 4 4.2-6H6z", started: "M6.7 1L2.5 7H6l-.7 4 4.2-6H6z", attempt: "M2.5 2.5l7 7M9.5 2.5l-7 7",
  wait: "M2.5 1.5h7L6 6l3.5 4.5h-7L6 6z", wake: "M6 10.2a4.2 4.2 0 100-8.4 4.2 4.2 0 000 8.4zM6 3.8V6l1.6 1", undo: "M9.5 9.5A4 4 0 003 5M3 2v3h3",
  rewind: "M9.5 9.5A4 4 0 003 5M3 2v3h3", end: "M2.5 2.5h7v7h-7z", fan_out: "M6 10.5V6M6 6L2 2M6 6l4-4M6 6V1.5",
};

function Shape({ kind, isFailure: isBad }) {
  const shape = isBad && kind !== "fan_out" ? "attempt" : kind;
  return html`<svg class=${classes("entry-shape", isBad && "tone-error", kind === "wait" && "tone-waiting")} viewBox="0 0 12 12" width="13" height="13" aria-hidden="true"><path d=${SHAPES[shape] ?? SHAPES.end} /></svg>`;
}
