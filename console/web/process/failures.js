// Failures and dead letters, grouped by member, message type and reason.

import { html } from "../lib.js";
import { useLive } from "../live.js";
import { change } from "../router.js";
import { process as chosen } from "../sources.js";
import { command } from "../runs/shell.js";
import { JsonButton } from "../dialog.js";
import { HeldNote, holdProps, useHeldRows } from "../held.js";
import { Button, Choice, Code, Command, FilterBox, PageHead, Path, Table, Time } from "../ui.js";
import { Empty, Missing, Shown } from "../states.js";
import { count, plural, rate, visible } from "../text.js";
import { openTest } from "./story.js";

const KINDS = [["failures", "Failures"], ["dead_letters", "Dead letters"]];
const LIMIT = 100;

export function Page({ params }) {
  const process = chosen.value;
  if (!process) return html`<${PageHead} title="Failures" /><${Empty} icon="failures" title="No process" text="This console shows only stores. Failed runs are under Runs." />`;
  const kind = params.get("kind") === "dead_letters" ? "dead_letters" : "failures";
  const contains = params.get("contains") ?? "";
  const query = { view: "failures", process: process.key, kind, contains: contains || undefined, limit: LIMIT };
  const text = process.target && command("pleach", "events", process.target, "--follow", "--kinds", kind);
  return html`<${PageHead} title=${kind === "failures" ? "Failures" : "Dead letters"} tools=${html`<${Command} text=${text} /><${JsonButton} query=${query} />`} />
    <div class="bar"><${Choice} label="What failed" options=${KINDS} value=${kind} onChoose=${(name) => change({ kind: name === "failures" ? null : name }, { replace: false })} />
      <${FilterBox} label="Filter by path, message or reason" placeholder="Filter" value=${contains} onChange=${(next) => change({ contains: next })} /></div>
    <${Groups} key=${process.key + kind} query=${query} process=${process} kind=${kind} contains=${contains} />`;
}

function Groups({ query, process, kind, contains }) {
  const view = useLive(query, { keep: true });
  return html`<${Shown} of=${view} rows=${8}>${(value) => html`<${List} value=${value} process=${process} kind=${kind} contains=${contains} />`}<//>`;
}

function List({ value, process, kind, contains }) {
  const { groups, since, missed } = value;
  const held = useHeldRows(groups, ({ path, message, reason }) => JSON.stringify([path, message, reason]), `${kind} ${contains}`);
  const noun = kind === "failures" ? "failure" : "dead letter";
  const watched = since ? html`since <${Time} at=${since} />, when the console began to listen` : "since the console began to listen";
  if (groups.length === 0) {
    const title = contains ? `No ${noun} matches this filter` : `No ${noun} was reported`;
    return html`<${Empty} title=${title}><p>In process ${visible(process.name)}, ${watched}.</p>${missed > 0 && html`<${Lost} missed=${missed} />`}<//>`;
  }
  const columns = [
    { title: "Member", cell: ({ path }) => html`<${Path} path=${path} process=${process.key} />` },
    { title: kind === "failures" ? "While handling" : "Message", cell: ({ message }) => (message ? html`<${Code} text=${message} />` : html`<span class="zero">no message</span>`) },
    { title: "Reason", wide: true, class: "reason", cell: ({ reason }) => visible(reason, { lines: true }) },
    { title: "Count", align: "end", cell: (group) => html`<strong>${count(group.count)}</strong>` },
    { title: "Per min", align: "end", cell: (group) => html`<span class=${group.per_minute > 0 ? "" : "zero"}>${rate(group.per_minute)}</span>` },
    { title: "First", cell: ({ first }) => html`<${Time} at=${first} />` },
    { title: "Last", cell: ({ last }) => html`<${Time} at=${last} form="ago" />` },
    ...(kind === "failures" ? [{ title: "Test", cell: ({ path, seq }) => html`<${Button} kind="quiet" icon="copy" label="Copy the last one as a test" onClick=${() => openTest({ process: process.key, path, seq })} />` }] : []),
  ];
  return html`<div ...${holdProps(held.hold)}><${Table} label=${`Groups of ${noun}s`} columns=${columns} rows=${held.rows} keyOf=${({ path, message, reason }) => JSON.stringify([path, message, reason])} /></div>
    <p class="grid-foot">${plural(groups.length, "group")}, ${watched}. <${HeldNote} held=${held} /></p>${missed > 0 && html`<${Lost} missed=${missed} />`}`;
}

function Lost({ missed }) {
  return html`<${Missing}>${plural(missed, "older entry is", "older entries are")} not counted, because the console keeps only the newest ones.<//>`;
}
