// The record of actions: who ordered what, when, why, and what really happened.

import { html, useEffect, useState } from "../lib.js";
import { getView } from "../api.js";
import { carriedOut } from "../act.js";
import { useOnce } from "../live.js";
import { link } from "../router.js";
import { isProcess, shown, sourceOf } from "../sources.js";
import { JsonButton } from "../dialog.js";
import { Badge, Button, PageHead, Path, Table, Time } from "../ui.js";
import { Empty, Failed, Shown } from "../states.js";
import { count, plural, visible, words } from "../text.js";

const LIMIT = 50;
const QUERY = { view: "actions", limit: LIMIT };
const TONES = { done: "ok", stored: "ok", taken: "ok", refused: "error", failed: "error" };

export function Page({ params }) {
  const subject = params.get("subject") || null;
  const view = useOnce(QUERY);
  useEffect(() => {
    if (carriedOut.value > 0) view.reload();
  }, [carriedOut.value]);
  return html`<${PageHead} title="Actions" tools=${html`<${Button} icon="restarting" onClick=${view.reload}>Read again<//><${JsonButton} query=${QUERY} />`}>
      <p class="note">What was ordered through this console, and what really happened. Refused orders are here too.</p><//>
    <${Shown} of=${view} rows=${6} isEmpty=${({ entries }) => entries.length === 0}
      empty=${{ icon: "actions", title: "Nothing was ordered through this console", text: shown.value?.is_read_only ? "It is read-only: it plans actions, and refuses to carry them out." : undefined }}>
      ${(value) => html`<${Entries} value=${value} subject=${subject} />`}<//>`;
}

function Entries({ value, subject }) {
  const [older, setOlder] = useState({ entries: [], isBusy: false, error: null, isEnd: value.entries.length < LIMIT });
  const entries = [...value.entries, ...older.entries];
  const rows = subject ? entries.filter((entry) => entry.subject === subject) : entries;
  const read = async () => {
    setOlder((before) => ({ ...before, isBusy: true, error: null }));
    try {
      const page = await getView({ ...QUERY, before: entries.at(-1).seq });
      setOlder((before) => ({ entries: [...before.entries, ...page.entries], isBusy: false, error: null, isEnd: page.entries.length < LIMIT }));
    } catch (error) {
      setOlder((before) => ({ ...before, isBusy: false, error }));
    }
  };
  const columns = [
    { title: "When", cell: ({ at }) => html`<${Time} at=${at} />` },
    { title: "Who", cell: ({ who }) => visible(who || "not known") },
    { title: "Ordered", cell: ({ title, kind }) => visible(title || words(kind)) },
    { title: "About", cell: (entry) => html`<${Subject} entry=${entry} />` },
    { title: "Why", cell: ({ reason }) => (reason ? visible(reason) : html`<span class="zero">no reason given</span>`) },
    { title: "What happened", wide: true, cell: ({ outcome, text }) => html`<${Badge} tone=${TONES[outcome] ?? "quiet"}>${words(outcome)}<//> ${visible(text)}` },
  ];
  const total = `${plural(entries.length, "action")}${older.isEnd ? ", all of them" : ""}`;
  return html`${subject && html`<div class="bar"><p>Only actions about <span class="mono">${visible(subject)}</span></p><a class="button" href=${link("/actions")}>Show all actions</a></div>`}
    <${Table} label="Actions, the newest first" columns=${columns} rows=${rows} keyOf=${({ seq }) => seq} />
    <p class="grid-foot">${subject ? `${count(rows.length)} of ${total}` : total}</p>
    ${older.error && html`<${Failed} title="Older actions could not be read" error=${older.error} onRetry=${read} />`}
    ${!older.isEnd && !older.error && html`<${Button} disabled=${older.isBusy} onClick=${read}>${older.isBusy ? "Reading …" : "Show older"}<//>`}`;
}

/** The member or run that an action was about. */
function Subject({ entry: { subject, source } }) {
  if (!subject) return visible(sourceOf(source)?.name ?? source);
  if (subject.startsWith("/") && (isProcess(source) || !sourceOf(source))) return html`<${Path} path=${subject} process=${source} />`;
  return html`<a class="path" href=${link("/run", { store: source, run: subject })}>${visible(subject)}</a>`;
}
