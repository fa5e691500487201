// Dialogs that ask for what an action needs, before the dialog that shows what will happen.

import { html, useState } from "../lib.js";
import { openAction } from "../act.js";
import { Dialog, openDialog } from "../dialog.js";
import { count } from "../text.js";
import { Button } from "../ui.js";
import { plainAnswer } from "./schema.js";

/** Asks why a run is cancelled. */
export function askCancel(action) {
  ask("Cancel the run", (close) => html`<${Form} onClose=${close} actionOf=${({ why }) => ({ ...action, cancel_reason: why.value.trim() })}><label class="field"><span>Reason <small>the run ends with it</small></span><input name="why" autocomplete="off" autofocus /></label><//>`);
}

/** Asks for the record after which a run continues. */
export function askRewind(action, last) {
  ask("Rewind the run", (close) => html`<${Form} onClose=${close} actionOf=${({ record }) => ({ ...action, record: Number(record.value) })}><label class="field"><span>Continue after record <small>1 to ${count(last)}</small></span>
    <input name="record" type="number" min="1" max=${last} required autofocus /></label>
    <p class="note">The timeline has the records; choose one there to see its state first.</p><//>`);
}

/** Asks for the name and the value of a signal. */
export function askSignal(action) {
  ask("Send a signal", (close) => html`<${SignalForm} action=${action} onClose=${close} />`);
}

function SignalForm({ action, onClose }) {
  const [problem, setProblem] = useState(null);
  const actionOf = ({ name, value }) => {
    const made = plainAnswer("json", value.value.trim() === "" ? "null" : value.value);
    setProblem(made.problem ?? null);
    return made.problem ? null : { ...action, name: name.value.trim(), value: made.text };
  };
  return html`<${Form} onClose=${onClose} actionOf=${actionOf}>
    <label class="field"><span>Name</span><input name="name" required autocomplete="off" spellcheck=${false} autofocus /></label>
    <label class="field"><span>Value <small>JSON; empty is null</small></span><textarea name="value" rows="4" class="is-code" spellcheck=${false}></textarea></label>
    ${problem && html`<p class="field-problem" role="alert">${problem}</p>`}<//>`;
}

function ask(title, content) {
  openDialog((close) => html`<${Dialog} title=${title} onClose=${close}>${content(close)}<//>`);
}

/** A form that closes before the next dialog opens. `actionOf` makes the action, or null to stay. */
function Form({ onClose, actionOf, children }) {
  const submit = (event) => {
    event.preventDefault();
    const action = actionOf(event.currentTarget.elements);
    if (!action) return;
    onClose();
    openAction(action);
  };
  return html`<form class="action" onSubmit=${submit}>${children}
    <div class="dialog-foot"><${Button} onClick=${onClose}>Keep things as they are<//><button type="submit" class="button button-primary">See what will happen</button></div></form>`;
}
