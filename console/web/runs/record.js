// One record of a run: what it says, the state there, and what can start from it.

import { html } from "../lib.js";
import { openAction } from "../act.js";
import { Dialog, openDialog } from "../dialog.js";
import { useOnce } from "../live.js";
import { hrefOf } from "../router.js";
import { Shown } from "../states.js";
import { count, visible } from "../text.js";
import { Badge, Button, CopyButton, Section, Time } from "../ui.js";
import { branchText, isFailure, KINDS, placeText } from "./timeline-model.js";
import { Value } from "./value.js";

/** Shows the record with the number `record` beside the timeline. */
export function RecordPanel({ store, run, record, show, onClose }) {
  const view = useOnce({ view: "timeline", store, run, before: record + 1, limit: 1 });
  const close = html`<${Button} kind="quiet" icon="close" label="Close" onClick=${onClose} />`;
  const base = { store, run };
  const linkTo = (params) => hrefOf("/run", { ...base, ...params });
  return html`<aside class="record-panel" aria-label=${`Record ${record}`}><${Section} title=${`Record ${count(record)}`} aside=${close}>
    <${Shown} of=${view} isEmpty=${({ records }) => records[0]?.record !== record} empty=${{ title: "This record is gone", text: "It was pruned." }}>${({ records: [header] }) => html`<${Header} header=${header} />`}<//>
    <div class="tools">
      <a class="button" href=${linkTo({ edit: "fork", record })}>Fork from here …</a>
      <${Button} onClick=${() => openAction({ kind: "rewind", ...base, record })}>Rewind to here …<//>
      ${record > 1 && html`<a class="button" href=${linkTo({ tab: "compare", from: record - 1, to: record, record })}>What changed</a>`}
      ${record < show.record && html`<a class="button" href=${linkTo({ tab: "compare", from: record, to: show.record, record })}>Compare with now</a>`}
      <${Button} icon="copy" onClick=${() => openTest({ ...base, record })}>Copy as test<//>
    </div>
    <h3>State there</h3><div class="card"><${Value} label="State at record ${record}" source=${{ ...base, record }} /></div>
  <//></aside>`;
}

function Header({ header }) {
  const { failure } = header;
  const rows = [
    ["What", html`${isFailure(header) ? html`<${Badge} tone="error">${KINDS[header.kind] ?? visible(header.kind)}<//>` : (KINDS[header.kind] ?? visible(header.kind))}`],
    header.node && ["Node", html`<span class="mono">${visible(header.node)}</span>${header.branch?.length > 0 && `, ${branchText(header.branch)}`}`],
    header.damage && ["Damage", html`<span class="run-reason">${visible(header.damage)}</span>`],
    header.at && ["When", html`<${Time} at=${header.at} form="full" />`],
    header.next && ["Then", html`<span class="mono">${visible(placeText(header.next))}</span>`],
    failure && ["Reason", html`<span class="run-reason">${visible(failure.reason, { lines: true })}</span>`],
    header.attempt > 0 && ["Attempt", count(header.attempt)],
    failure?.retry_at && ["Next attempt", html`<${Time} at=${failure.retry_at} form="full" />`],
    header.part_of && ["Part of", `record ${count(header.part_of)}`],
    header.epoch > 0 && ["Driver epoch", count(header.epoch)],
  ].filter(Boolean);
  return html`<dl class="run-facts">${rows.map(([name, text]) => html`<div key=${name}><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>`;
}

/** Opens a test in Rust that starts at a record. */
export function openTest(query) {
  openDialog((close) => html`<${TestDialog} query=${{ view: "test", ...query }} onClose=${close} />`);
}

function TestDialog({ query, onClose }) {
  const view = useOnce(query);
  return html`<${Dialog} title="Test that starts at record ${query.record}" class="dialog-wide" onClose=${onClose}>
    <${Shown} of=${view}>${({ text, notes = [] }) => html`
      ${notes.length > 0 && html`<ul class="will">${notes.map((note) => html`<li key=${note}>${visible(note)}</li>`)}</ul>`}
      <div class="tools"><${CopyButton} kind="primary" text=${text}>Copy the test<//></div>
      <pre class="block" tabindex="0" role="region" aria-label="Test in Rust">${visible(text, { lines: true })}</pre>`}<//><//>`;
}
