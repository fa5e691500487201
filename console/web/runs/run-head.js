// The upper part of the page of a run: why it does not continue, what to do, and the facts.

import { html } from "../lib.js";
import { openAction } from "../act.js";
import { useOnce } from "../live.js";
import { hrefOf } from "../router.js";
import { shown } from "../sources.js";
import { count, plural, sentence, visible } from "../text.js";
import { Badge, Button, Command, Path, Section, Table, Time } from "../ui.js";
import { askCancel, askRewind, askSignal } from "./ask.js";
import { RunLink, Status, Tags } from "./parts.js";
import { command } from "./shell.js";
import { actionsOf, statusLook } from "./words.js";

/** What failed or what the run waits for, what follows, and what helps. `recordLink(number)` is a URL. `look` is the command that shows the run. */
export function Why({ value, recordLink, look }) {
  const { show, why } = value;
  const { cause = [], so = [], note = [] } = why ?? {};
  const failure = show.failure;
  const { tone } = statusLook(show.status);
  const said = [...cause, ...so, ...note];
  return html`<section class="card why why-${tone}" aria-label="Why">
    ${cause.map((text) => html`<p class="why-cause" key=${text}>${visible(sentence(text), { lines: true })}</p>`)}
    ${[...so, ...note].map((text) => html`<p class=${cause.length === 0 ? "why-cause" : "why-so"} key=${text}>${visible(sentence(text), { lines: true })}</p>`)}
    ${said.length === 0 && html`<p class="why-cause">${show.status === "running" ? "The run continues." : `The run is ${visible(show.status)}.`}</p>`}
    ${failure && html`<${Failure} failure=${failure} recordLink=${recordLink} isSaid=${said.some((text) => text.includes(failure.reason))} />`}
    <${Do} commands=${why?.do?.length > 0 ? why.do : [look]} />
  </section>`;
}

function Failure({ failure, recordLink, isSaid }) {
  const parts = [failure.node && html`at <span class="mono">${visible(failure.node)}</span>`, failure.attempt > 0 && `attempt ${failure.attempt}`,
    failure.branch?.length > 0 && `branch ${failure.branch.join(" › ")}`, failure.record > 0 && html`<a href=${recordLink(failure.record)}>record ${count(failure.record)}</a>`].filter(Boolean);
  return html`<p class="why-failure"><${Badge} tone=${failure.is_final ? "error" : "warning"}>${failure.is_final ? "failed" : "failed, tried again"}<//>
    <span>${parts.map((part, at) => html`${at > 0 && ", "}${part}`)}, <${Time} at=${failure.at} form="ago" />${failure.retry_at && html`; next attempt <${Time} at=${failure.retry_at} form="ago" />`}</span>
    ${!isSaid && html`<span class="run-reason">${visible(failure.reason, { lines: true })}</span>`}</p>`;
}

/** The commands that help, each with what it does. */
function Do({ commands }) {
  if (commands.length === 0) return null;
  return html`<ul class="why-do" aria-label="What to do">${commands.map((line) => {
    const [text, about] = splitCommand(line);
    return html`<li key=${line}>${text.startsWith("pleach ") ? html`<${Command} text=${text} />` : html`<span>${visible(text)}</span>`} ${about && html`<span class="note">${visible(about)}</span>`}</li>`;
  })}</ul>`;
}

function splitCommand(line) {
  const at = line.lastIndexOf("  # ");
  return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 4)];
}

/** The buttons of a run; the first is the one that helps. */
export function RunActions({ show, run, store, linkTo }) {
  const order = (kind) => {
    const base = { kind, store, run };
    if (kind === "cancel") return askCancel(base);
    if (kind === "signal") return askSignal(base);
    if (kind === "rewind") return askRewind(base, show.record);
    return openAction(base);
  };
  const isHelp = ["retry", "unstick", "continue"];
  return html`<div class="run-actions tools" role="group" aria-label="Actions">${actionsOf(show).map(({ kind, word, about }) => kind === "fork"
    ? html`<a class="button" key=${kind} href=${linkTo({ edit: "fork", tab: null, before: null })} title=${about}>${word}</a>`
    : html`<${Button} key=${kind} kind=${isHelp.includes(kind) ? "primary" : "plain"} title=${about} onClick=${() => order(kind)}>${word}<//>`)}</div>`;
}

const RELATIVES = [
  { title: "Run", cell: (one) => html`<${RunLink} run=${one.run} />` },
  { title: "Is its", cell: (one) => visible(one.relation) },
  { title: "Status", cell: (one) => one.status && html`<${Status} status=${one.status} />` },
  { title: "Graph", cell: (one) => html`<span class="mono">${visible(one.graph)}</span>` },
  { title: "From record", align: "end", wide: true, cell: (one) => count(one.record) },
];

/** What else is known about a run. */
export function Facts({ value, store, target }) {
  const { show, children = [], parent, driver, is_cut: isCut } = value;
  const rows = [
    ["Graph", html`<span class="mono">${visible(show.graph)}</span>, schema ${show.schema}`],
    ["Fingerprint", html`<span class="mono">${visible(show.fingerprint)}</span>`],
    ["Created", html`<${Time} at=${show.created} form="full" />`],
    ["Changed", html`<${Time} at=${show.changed} form="full" />`],
    show.due && ["Due", html`<${Time} at=${show.due} form="full" />`],
    show.deadline && ["Deadline", html`<${Time} at=${show.deadline} form="full" />`],
    ["Records", `${count(show.oldest_record)} to ${count(show.record)}, ${plural(show.visits ?? 0, "visit")}`],
    show.driver && ["Driver", html`<${Driver} show=${show} driver=${driver} />`],
    show.takeovers > 0 && ["Takeovers", `${count(show.takeovers)} without progress`],
    show.trouble && ["Trouble", html`<span class="run-reason">${visible(show.trouble)}</span>`],
    Object.keys(show.tags ?? {}).length > 0 && ["Tags", html`<${Tags} tags=${show.tags} />`],
    parent && [parent.relation === "fork" ? "Forked from" : "Parent", html`<${RunLink} run=${parent.run} params=${{ tab: "timeline", record: parent.record, before: parent.record + 8 }} /> at record ${count(parent.record)}`],
  ].filter(Boolean);
  return html`<${Section} title="About this run"><dl class="run-facts">${rows.map(([name, text]) => html`<div key=${name}><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>
      <p class="run-command"><${Command} text=${command("pleach", "runs", "show", target, show.id)} /></p><//>
    ${children.length > 0 && html`<${Section} title="Children and forks"><${Table} label="Children and forks" columns=${RELATIVES} rows=${children} keyOf=${(one) => one.run} />${isCut && html`<p class="note after-table">Only the newest runs of the graph were looked at; there may be more.</p>`}<//>`}
    <${Section} title="Actions on this run"><p class="note">What was ordered through this console is in the <a href=${hrefOf("/actions", { store, subject: show.id })}>record of actions</a>.</p><//>`;
}

/** The driver of a run, and the member of the tree that is it, if its process is shown here. */
function Driver({ show, driver }) {
  const process = shown.value?.processes.find(({ pid }) => pid === driver?.process) ?? null;
  const found = useOnce(process && { view: "top", process: process.key, path: "/", contains: show.id, limit: 20 });
  const row = found.value?.rows.map((one) => one.member ?? one).find((member) => member.kind === "run" && (member.run ? member.run.id === show.id : member.path.endsWith(show.id)));
  return html`<span class="mono">${visible(show.driver)}</span>${driver && !driver.is_alive && html` <${Badge} tone="error">does not renew its lease<//>`}
    ${show.lease_until && html`, its lease ends <${Time} at=${show.lease_until} form="ago" />`}
    ${row && html`<br /><${Path} path=${row.path} process=${process.key} />`}`;
}
