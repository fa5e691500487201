// The fork editor: a new run from a record of another one, with an edited state.
//
// The state is a text all the way: from the store, through the editor, back to Rust. Nothing here
// parses it and writes it again, so big integers and long fractions stay as they are.

import { html, useEffect, useMemo, useState } from "../lib.js";
import { act } from "../api.js";
import { ActionSteps } from "../act.js";
import { useOnce } from "../live.js";
import { change, go, hrefOf } from "../router.js";
import { Shown } from "../states.js";
import { bytes, plural, visible } from "../text.js";
import { Button, PageHead, Section } from "../ui.js";
import { Editor } from "./editor.js";
import { indexOf, layOut, placeInError } from "./exact-json.js";
import { RunLink } from "./parts.js";

/** How long typing pauses before Rust looks at the text. */
const PAUSE_MS = 700;

/** Shows the editor for a fork of `run` at `record`, or at its last record. */
export function Fork({ store, run, record }) {
  const view = useOnce({ view: "run", store, run });
  const back = html`<a class="button" href=${hrefOf("/run", { store, run, record })}>Back to the run</a>`;
  return html`<${PageHead} title="Fork a run" tools=${back}><p class="run-lead">A new run continues from a record of <${RunLink} run=${run} />, with the state below. The first one stays as it is.</p><//>
    <${Shown} of=${view}>${({ show, children = [] }) => html`<${Start} ...${{ store, run, show, children, record: record ?? startOf(show) }} />`}<//>`;
}

/** Where a fork starts unless a person chose a record: before the failure, or at the end. */
function startOf(show) {
  const failed = show.failure?.is_final ? show.failure.record : null;
  return failed && failed > 1 ? failed - 1 : show.record;
}

function Start({ store, run, show, children, record }) {
  const state = useOnce({ view: "value", store, run, record, pointer: "", first: 0 });
  const choose = (event) => {
    event.preventDefault();
    change({ record: event.currentTarget.elements.record.value }, { replace: false });
  };
  const form = html`<form class="jump" key=${record} onSubmit=${choose}><label>From record <input name="record" type="number" min=${show.oldest_record} max=${show.record} defaultValue=${record} value=${record} /></label><button type="submit" class="button">Load</button></form>`;
  return html`<${Section} title="State" aside=${form}><${Shown} of=${state}>${(level) => typeof level.text !== "string"
    ? html`<p>The state has ${bytes(level.bytes)}, too much to edit here. <code class="code">pleach runs fork … --state</code> takes it from a file. The fork can keep it as it is:</p><${Edited} key=${record} ...${{ store, run, record, children, original: null }} />`
    : html`<${Edited} key=${record} ...${{ store, run, record, children, original: level.text }} />`}<//><//>`;
}

function Edited({ store, run, record, children, original }) {
  const laid = useMemo(() => (original === null ? "" : layOut(original)), [original]);
  const [text, setText] = useState(laid);
  const [name, setName] = useState(() => freeName(run, children));
  const [checked, setChecked] = useState(null);
  const [isPlanned, setIsPlanned] = useState(false);
  const isEdited = text !== laid;
  const action = { kind: "fork", store, run, record, new: name, ...(isEdited && { state: text }) };
  const problem = useCheck(isEdited ? action : null, text, setChecked);
  const isWell = !problem && name.trim() !== "";
  const onEdit = (changed) => {
    setText(changed);
    setIsPlanned(false);
  };
  return html`
    ${original !== null && html`<div class="fork-editor"><${Editor} text=${text} onText=${onEdit} problem=${problem} label="State of the fork, as JSON" /></div>
      <p class="fork-state">${problem ? html`<span class="field-problem" role="alert">${visible(problem.text)}</span>`
        : html`<span class="note" role="status">${!isEdited ? "Not changed." : checked === text ? "Rust can read this text." : "Checking …"} ${plural(text.split("\n").length, "line")}</span>`}
        ${isEdited && html`<${Button} kind="quiet" onClick=${() => onEdit(laid)}>Undo all changes<//>`}</p>`}
    <label class="field fork-name"><span>Id of the new run</span><input value=${name} autocomplete="off" spellcheck=${false} onInput=${(event) => {
      setName(event.currentTarget.value);
      setIsPlanned(false);
    }} /></label>
    ${isPlanned
      ? html`<div class="card"><${ActionSteps} id="fork-plan" action=${action} onDone=${(outcome) => outcome.outcome !== "refused" && go(hrefOf("/run", { store, run: outcome.run ?? name }))} onClose=${() => setIsPlanned(false)} /></div>`
      : html`<div class="tools"><${Button} kind="primary" disabled=${!isWell} onClick=${() => setIsPlanned(true)}>See what will happen<//></div>`}`;
}

/** A name for the fork that no known run has: order-7b, order-7c. */
function freeName(run, children) {
  const taken = new Set(children.map((child) => child.run));
  const letters = "bcdefghijklmnopqrstuvwxyz".split("");
  return letters.map((letter) => `${run}${letter}`).find((name) => !taken.has(name)) ?? `${run}-fork`;
}

/** Lets Rust read the text once typing pauses. Returns where it cannot, as `at` and `text`. */
function useCheck(action, text, onChecked) {
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    if (!action) {
      setProblem(null);
      return undefined;
    }
    let isCurrent = true;
    const timer = setTimeout(() => {
      act({ action, is_plan: true, reason: "", plan: null }).then(
        () => isCurrent && (setProblem(null), onChecked(text)),
        (error) => isCurrent && setProblem(problemOf(error, text)),
      );
    }, PAUSE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [text, action === null]);
  return problem;
}

/** An error of Rust with its place in the text, if it names one. Other errors show in the plan. */
function problemOf(error, text) {
  const place = error.line ? error : placeInError(error.text);
  return place ? { at: indexOf(text, place.line, place.column), text: error.text } : null;
}
