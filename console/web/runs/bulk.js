// An action on all runs that match the filters: which action, what will happen, the count typed by
// hand, the result for each run, and a button that stops it.

import { html, useEffect, useId, useState } from "../lib.js";
import { bulk as sendBulk } from "../api.js";
import { carriedOut, Consequences, NotDone } from "../act.js";
import { Dialog, openDialog } from "../dialog.js";
import { useLive } from "../live.js";
import { go } from "../router.js";
import { shown, store } from "../sources.js";
import { Failed, Loading, Shown } from "../states.js";
import { count, visible } from "../text.js";
import { Badge, Button, Section, Table } from "../ui.js";
import { toRequest } from "./filters.js";
import { countOf, RunLink } from "./parts.js";
import { BULK_ACTIONS } from "./words.js";

const RATES = [1, 5, 10, 50, 100];

/** Shows the button, and the progress of the bulk action with the id `bulk`, if there is one. */
export function Bulk({ filters, bulk, linkTo }) {
  const open = () => openDialog((close) => html`<${BulkDialog} filters=${filters} onClose=${close} onStart=${(id) => {
    close();
    go(linkTo(id));
  }} />`);
  return html`<${Button} icon="actions" onClick=${open}>Act on all …<//>${bulk && html`<${Progress} bulk=${bulk} onClose=${() => go(linkTo(null))} />`}`;
}

function BulkDialog({ filters, onClose, onStart }) {
  const status = filters.failed ? "failed" : filters.status;
  const known = BULK_ACTIONS.filter(({ statuses }) => statuses.includes(status));
  const fitting = known.length > 0 ? known : BULK_ACTIONS;
  const [kind, setKind] = useState(fitting[0].kind);
  const id = useId();
  return html`<${Dialog} title="Act on all runs that match" onClose=${onClose} describedBy=${id}>
    <label class="field"><span>Action</span><select value=${kind} onChange=${(event) => setKind(event.currentTarget.value)}>
      ${fitting.map((action) => html`<option key=${action.kind} value=${action.kind} selected=${action.kind === kind}>${action.word}</option>`)}</select></label>
    <${BulkPlan} key=${kind} id=${id} kind=${kind} filters=${filters} onClose=${onClose} onStart=${onStart} />
  <//>`;
}

function BulkPlan({ id, kind, filters, onClose, onStart }) {
  const [turn, setTurn] = useState(0);
  const [step, setStep] = useState({});
  const request = { action: { kind, store: store.value.key }, filters: toRequest(filters) };
  useEffect(() => {
    let isCurrent = true;
    setStep({});
    sendBulk({ ...request, is_plan: true }).then((plan) => isCurrent && setStep({ plan }), (error) => isCurrent && setStep({ error }));
    return () => (isCurrent = false);
  }, [turn]);
  const start = async (more) => {
    setStep((before) => ({ ...before, isBusy: true, refused: null }));
    try {
      const { plan } = step.plan;
      const started = await sendBulk({ ...request, is_plan: false, plan, ...more });
      onStart(started.bulk ?? started.id);
    } catch (refused) {
      setStep((before) => ({ ...before, isBusy: false, refused }));
    }
  };
  const again = () => setTurn(turn + 1);
  if (step.error) return html`<${Failed} title="It could not be planned" error=${step.error} onRetry=${again} />`;
  if (!step.plan) return html`<${Loading} rows=${3} label="Counting the runs" />`;
  return html`<${BulkConfirm} ...${step} id=${id} kind=${kind} onStart=${start} onAgain=${again} onClose=${onClose} />`;
}

/** The count of a plan: `runs` is a number, or has `count` and `is_cut`. */
function countOfPlan({ runs }) {
  return typeof runs === "number" ? { number: runs, isCut: false } : { number: runs?.count ?? 0, isCut: Boolean(runs?.is_cut) };
}

function BulkConfirm({ id, kind, plan, isBusy, refused, onStart, onAgain, onClose }) {
  const { number, isCut } = countOfPlan(plan);
  const [typed, setTyped] = useState("");
  const [rate, setRate] = useState(5);
  const isAllowed = plan.is_allowed !== false && !shown.value?.is_read_only && number > 0;
  const submit = (event) => {
    event.preventDefault();
    onStart({ expected: number, per_second: rate, reason: event.currentTarget.elements.reason.value.trim() });
  };
  const word = BULK_ACTIONS.find((action) => action.kind === kind).word;
  return html`<form class="action" onSubmit=${submit}>
    <div id=${id}><h3>What will happen</h3>
      <p>${number === 0 ? "No run matches." : html`${word} <strong>${countOf(number, isCut, "run")}</strong>, one after another, ${isCut ? "as far as counted" : "each as it is then"}.`}</p>
      <${Consequences} plan=${{ will: [], ...plan }} />
      ${plan.samples?.length > 0 && html`<${Samples} samples=${plan.samples} isAll=${!isCut && plan.samples.length === number} />`}
    </div>
    ${shown.value?.is_read_only && html`<p class="note"><${Badge} tone="quiet" icon="lock">read-only<//> This console only looks.</p>`}
    ${isAllowed && html`<div class="bulk-fields">
      <label class="field"><span>At most per second</span><select value=${rate} onChange=${(event) => setRate(Number(event.currentTarget.value))}>${RATES.map((one) => html`<option key=${one} value=${one} selected=${one === rate}>${one}</option>`)}</select></label>
      <label class="field"><span>Type ${number} to confirm</span><input value=${typed} inputmode="numeric" autocomplete="off" onInput=${(event) => setTyped(event.currentTarget.value)} /></label></div>
      <label class="field"><span>Reason <small>kept in the record of actions</small></span><textarea name="reason" rows="2" maxlength="1000"></textarea></label>`}
    ${refused && html`<${NotDone} error=${refused} changed="Other runs match now. Nothing was done." refused="It was not started" onAgain=${onAgain} />`}
    <div class="dialog-foot"><${Button} onClick=${onClose}>${isAllowed ? "Keep things as they are" : "Close"}<//>
      ${isAllowed && html`<button type="submit" class="button button-danger" disabled=${isBusy || typed.trim() !== String(number)}>${isBusy ? "Starting …" : `${word} ${countOf(number, isCut, "run")}`}</button>`}</div>
  </form>`;
}

/** What will happen to the first runs, one by one. */
function Samples({ samples, isAll }) {
  const text = isAll ? "For each run:" : `For the first ${samples.length} runs:`;
  return html`<p class="note">${text}</p>
    <ul class="samples" tabindex="0" aria-label="What will happen to each run">${samples.map(({ run, will, refusal }) => html`<li key=${run}><${RunLink} run=${run} /><${Consequences} plan=${{ will, refusal }} /></li>`)}</ul>`;
}

const RESULTS = [
  { title: "Run", cell: (one) => html`<${RunLink} run=${one.run} />` },
  { title: "Outcome", cell: (one) => html`<${Badge} tone=${["done", "stored", "taken"].includes(one.outcome) ? "ok" : "error"}>${visible(one.outcome)}<//>` },
  { title: "What happened", wide: true, cell: (one) => visible(one.text) },
];

/** The progress of a bulk action. Its id is in the URL, so a reload finds it again. */
function Progress({ bulk, onClose }) {
  const view = useLive({ view: "bulk", bulk });
  const [error, setError] = useState(null);
  const left = view.value?.left ?? null;
  useEffect(() => {
    if (left === 0) carriedOut.value += 1;
  }, [left]);
  const stop = () => sendBulk({ stop: bulk }).then(() => setError(null), setError);
  return html`<${Section} title="Bulk action" class="card bulk" aside=${html`<${Button} kind="quiet" icon="close" label="Hide" onClick=${onClose} />`}>
    <${Shown} of=${view} rows=${2}>${({ done, failed, left: rest, results, is_stopped: isStopped }) => html`
      <progress class="bulk-bar" max=${done + failed + rest} value=${done + failed} aria-label="Runs that are done"></progress>
      <p class="bulk-state"><span role="status">${isStopped ? html`<${Badge} tone="warning" icon="stopped">stopped<//>` : rest > 0 ? html`<${Badge} tone="busy">working<//>` : html`<${Badge} tone=${failed > 0 ? "warning" : "ok"}>finished<//>`}</span>
        <span><strong>${count(done)}</strong> done, <strong>${count(failed)}</strong> refused or failed, <strong>${count(rest)}</strong> ${isStopped ? "not touched" : "left"}</span>
        ${rest > 0 && !isStopped && html`<${Button} kind="danger" icon="stopped" onClick=${stop}>Stop<//>`}</p>
      ${error && html`<${Failed} title="It could not be stopped" error=${error} onRetry=${stop} />`}
      ${results.length > 0 && html`<details class="bulk-results" open=${failed > 0}><summary>Results, the newest first${results.length >= 200 ? " (the last 200)" : ""}</summary>
        <${Table} label="Results" columns=${RESULTS} rows=${results} keyOf=${(one) => one.run} /></details>`}`}<//>
  <//>`;
}
