// The page of a run: what it does and why it does not continue, its graph with tokens, what it waits
// for, its timeline, its state at any record, and what can be done.

import { html } from "../lib.js";
import { change, hrefOf } from "../router.js";
import { store } from "../sources.js";
import { Failed, Missing, Shown } from "../states.js";
import { visible } from "../text.js";
import { Choice, CopyButton, PageHead, Section } from "../ui.js";
import { JsonButton } from "../dialog.js";
import { Compare } from "./compare.js";
import { Fork } from "./fork.js";
import { Graph } from "./graph-part.js";
import { useFresh } from "./live.js";
import { NoStore, Status } from "./parts.js";
import { Positions } from "./positions.js";
import { RecordPanel } from "./record.js";
import { Facts, RunActions, Why } from "./run-head.js";
import { command } from "./shell.js";
import { Timeline } from "./timeline.js";
import { DownloadButton, Value } from "./value.js";

const TABS = [["overview", "Overview"], ["timeline", "Timeline"], ["state", "State"], ["compare", "Compare"], ["about", "About"]];

export function Page({ params }) {
  const { key, target } = store.value ?? {};
  const run = params.get("run");
  if (!key) return html`<${NoStore} title="Run" />`;
  if (!run) return html`<${PageHead} title="Run" /><p>The URL names no run. <a href=${hrefOf("/runs", { store: key })}>List the runs</a>.</p>`;
  if (params.get("edit") === "fork") return html`<${Fork} key=${run} store=${key} target=${target} run=${run} record=${numberOf(params.get("record"))} />`;
  return html`<${Run} key=${run} store=${key} target=${target ?? "STORE"} run=${run} params=${params} />`;
}

/** A record of the URL, or null. */
function numberOf(text) {
  const number = Number(text);
  return text && Number.isSafeInteger(number) && number > 0 ? number : null;
}

function Run({ store: key, target, run, params }) {
  const query = { view: "run", store: key, run };
  const view = useFresh(query);
  const show = view.value?.show;
  const head = html`<span class="run-status">${show && html`<${Status} status=${show.status} note=${show.is_paused && "paused"} />`}</span>`;
  const tools = html`<${DownloadButton} kind="plain" text="Incident file" query=${query} name="${run}.html" label="Save the run as one HTML file that opens without a server" /><${JsonButton} query=${query} />`;
  return html`<${PageHead} title=${html`<span class="run-title">${visible(run)}</span>`} tools=${tools}><${CopyButton} text=${run} label="Copy the id" />${head}<//>
    <${Shown} of=${view} rows=${10}>${(value) => html`<${Known} value=${value} ...${{ store: key, target, run, params }} />`}<//>`;
}

function Known({ value, store: key, target, run, params }) {
  const { show, damage } = value;
  if (!show) return html`<${Failed} title="This run cannot be read" error=${{ code: "damaged", text: damage?.text ?? "Its row is damaged.", advice: (value.why?.do ?? []).join("\n") }} />`;
  const tab = TABS.some(([name]) => name === params.get("tab")) ? params.get("tab") : "overview";
  const record = numberOf(params.get("record"));
  const linkTo = (more) => hrefOf("/run", { store: key, run, tab: tab === "overview" ? null : tab, record, ...more });
  const choose = (number) => change({ record: number === record ? null : number });
  return html`<div class="run-page">
    <${Why} value=${value} look=${command("pleach", "runs", "show", target, run)} recordLink=${(number) => hrefOf("/run", { store: key, run, tab: "timeline", before: number + 8, record: number })} />
    ${damage && html`<${Missing}>${visible(damage.text)}. The position of the run cannot be shown.<//>`}
    <${RunActions} show=${show} run=${run} store=${key} linkTo=${linkTo} />
    <${Choice} label="Part of the page" value=${tab} options=${TABS} onChoose=${(name) => change({ tab: name === "overview" ? null : name }, { replace: false })} />
    ${tab === "overview" && html`<div class="run-now">
      <${Graph} store=${key} show=${show} />
      <${Positions} show=${show} leftOut=${value.tokens_left_out ?? 0} run=${run} store=${key} />
    </div>`}
    ${tab === "timeline" && html`<div class=${record ? "with-panel" : ""}>
      <${Timeline} store=${key} run=${run} before=${numberOf(params.get("before"))} failed=${show.failure?.record ?? null} record=${record} onRecord=${choose} linkTo=${linkTo} />
      ${record && html`<${RecordPanel} key=${record} store=${key} target=${target} run=${run} record=${record} show=${show} onClose=${() => choose(record)} />`}</div>`}
    ${tab === "state" && html`<${StateAt} store=${key} run=${run} record=${record} last=${show.record} />`}
    ${tab === "compare" && html`<${Compare} store=${key} target=${target} run=${run} show=${show} params=${params} />`}
    ${tab === "about" && html`<${Facts} value=${value} store=${key} target=${target} />`}
  </div>`;
}

function StateAt({ store: key, run, record, last }) {
  const submit = (event) => {
    event.preventDefault();
    change({ record: numberOf(event.currentTarget.elements.record.value) });
  };
  const form = html`<form class="jump" key=${record} onSubmit=${submit}><label>At record <input name="record" inputmode="numeric" size="7" defaultValue=${record ?? ""} value=${record ?? ""} placeholder=${last} autocomplete="off" /></label><button type="submit" class="button">Show</button></form>`;
  return html`<${Section} title=${record ? `State at record ${record}` : "State now"} aside=${form}>
    <div class="card"><${Value} key=${record} label="State" source=${{ store: key, run, ...(record && { record }) }} /></div><//>`;
}
