// Actions: first what will happen, then the reason, then the confirmation, then what happened.

import { html, signal, useEffect, useId, useRef, useState } from "./lib.js";
import { act } from "./api.js";
import { hrefOf } from "./router.js";
import { Dialog, openDialog } from "./dialog.js";
import { Badge, Button, Command } from "./ui.js";
import { Failed, Loading } from "./states.js";
import { plural, sentence, visible, words } from "./text.js";
import { shown } from "./sources.js";

/** Words of the button that confirms. */
const VERBS = {
  stop: "Stop it", restart: "Restart it", suspend: "Suspend it", resume: "Resume it", log_level: "Set the level",
  pause: "Pause it", continue: "Continue it", cancel: "Cancel it", retry: "Retry it", unstick: "Unstick it",
  delete: "Delete it", answer: "Send the answer", signal: "Send the signal", rewind: "Rewind it", fork: "Fork it",
};

/** Failures after which the console may have done what it was asked. */
const UNKNOWN = ["unreachable", "timed_out", "internal", "bad_answer"];

const TONES = { done: "ok", stored: "ok", taken: "ok", refused: "error" };

/** Counts the actions that were carried out, so that lists can be read again. */
export const carriedOut = signal(0);

/** Opens the dialog of an action. `onDone(outcome)` is called after it was carried out. */
export function openAction(action, { onDone } = {}) {
  openDialog((close) => html`<${ActionDialog} action=${action} onDone=${onDone} onClose=${close} />`);
}

function ActionDialog({ action, onDone, onClose }) {
  const [title, setTitle] = useState(sentence(words(action.kind)));
  const id = useId();
  return html`<${Dialog} title=${title} onClose=${onClose} describedBy=${id}>
    <${ActionSteps} action=${action} onTitle=${setTitle} onDone=${onDone} onClose=${onClose} id=${id} /><//>`;
}

/**
 * Plans an action, shows what will happen, asks for a reason and a confirmation, and shows the
 * result. It plans anew whenever `action` changes. For dialogs and pages.
 */
export function ActionSteps({ action, onTitle, onDone, onClose, id }) {
  const text = JSON.stringify(action);
  const [turn, setTurn] = useState(0);
  const [step, setStep] = useState({ name: "planning" });
  useEffect(() => {
    let isCurrent = true;
    setStep({ name: "planning" });
    act({ action, is_plan: true, reason: "", plan: null }).then(
      (plan) => {
        if (!isCurrent) return;
        onTitle?.(visible(plan.title));
        setStep({ name: "planned", plan });
      },
      (error) => isCurrent && setStep({ name: "failed", error }),
    );
    return () => (isCurrent = false);
  }, [text, turn]);

  const confirm = async (reason) => {
    setStep((before) => ({ ...before, isBusy: true, error: null }));
    try {
      const outcome = await act({ action, is_plan: false, reason, plan: step.plan.plan });
      carriedOut.value += 1;
      setStep({ name: "done", outcome });
      onDone?.(outcome);
    } catch (error) {
      setStep((before) => ({ ...before, isBusy: false, error }));
    }
  };
  const again = () => setTurn((number) => number + 1);

  if (step.name === "planning") return html`<${Loading} rows=${3} label="Finding out what will happen" />`;
  if (step.name === "failed") return html`<${Failed} title="It could not be planned" error=${step.error} onRetry=${again} />`;
  if (step.name === "done") return html`<${Result} outcome=${step.outcome} onClose=${onClose} />`;
  return html`<${Confirm} action=${action} ...${step} onConfirm=${confirm} onAgain=${again} onClose=${onClose} id=${id} />`;
}

/** The plan, and the form that confirms it. */
function Confirm({ action, plan, isBusy, error, onConfirm, onAgain, onClose, id }) {
  const reasonRef = useRef(null);
  const isReadOnly = shown.value?.is_read_only;
  const submit = (event) => {
    event.preventDefault();
    onConfirm(reasonRef.current.value.trim());
  };
  useEffect(() => reasonRef.current?.focus(), []);
  return html`<form class="action" onSubmit=${submit}>
    <div id=${id}><h3>What will happen</h3><${Consequences} plan=${plan} /></div>
    ${plan.command && html`<${Command} text=${plan.command} />`}
    ${isReadOnly && html`<p class="note"><${Badge} tone="quiet" icon="lock">read-only<//> This console only looks, and refuses to carry it out.${plan.command ? " The command above does the same." : ""}</p>`}
    ${plan.is_allowed && html`<label class="field"><span>Reason <small>kept in the record of actions</small></span>
      <textarea ref=${reasonRef} rows="2" maxlength="1000" placeholder="Why is this done?"></textarea></label>`}
    ${error && html`<${NotDone} error=${error} changed="It has changed meanwhile. Nothing was done." refused="It was not done" onAgain=${onAgain} />`}
    <div class="dialog-foot">${onClose && html`<${Button} onClick=${onClose}>${plan.is_allowed ? "Keep things as they are" : "Close"}<//>`}
      ${plan.is_allowed && html`<button type="submit" class=${`button button-${plan.is_destructive ? "danger" : "primary"}`} disabled=${isBusy}>
        ${isBusy ? "Working …" : (VERBS[action.kind] ?? "Do it")}</button>`}</div>
  </form>`;
}

/**
 * An order that failed. `changed` and `refused` are the titles if nothing was done. After a lost or
 * late answer it is not known whether it was done; the record of actions tells.
 */
export function NotDone({ error, changed, refused, onAgain }) {
  if (error.code === "used") return html`<${Failed} title="It was carried out already" error=${error} />`;
  if (!UNKNOWN.includes(error.code)) return html`<${Failed} title=${error.code === "changed" ? changed : refused} error=${error} onRetry=${onAgain} />`;
  return html`<${Failed} title="It is not known whether it was done" error=${error} />
    <p class="note">Look into the <a href=${hrefOf("/actions")} target="_blank">record of actions</a> before you order it again.</p>`;
}

/** What a plan says: sentences, and what runs again. For other pages that plan. */
export function Consequences({ plan }) {
  return html`${plan.refusal && html`<p class="refusal"><${Badge} tone="error">refused<//> ${visible(plan.refusal)}</p>`}
    <ul class="will">${(plan.will ?? []).map((text, index) => html`<li key=${index}>${visible(text)}</li>`)}</ul>
    ${plan.preview && html`<${Preview} preview=${plan.preview} />`}`;
}

const PREVIEW = [
  ["nodes", "Nodes run again"], ["effects_again", "Effects run again"], ["effects_unknown", "Effects that may run again"],
  ["effects_kept", "Effects kept"], ["waits_again", "Waits asked anew"], ["waits_kept", "Waits kept"],
  ["undos_kept", "Undos kept"], ["undos_dropped", "Undos dropped"],
];

/** What a rewind, retry or fork runs again and keeps, as lists. */
export function Preview({ preview }) {
  const lists = PREVIEW.filter(([name]) => Array.isArray(preview[name]) && preview[name].length > 0);
  return html`<dl class="preview">${lists.map(([name, title]) => html`<div key=${name} class=${name.endsWith("again") || name.endsWith("unknown") ? "preview-again" : ""}>
    <dt>${title}</dt><dd>${preview[name].map((item, index) => html`<span class="chip" key=${index}>${visible(nameOfItem(item))}</span>`)}</dd></div>`)}</dl>
    ${preview.is_undoing && html`<p class="note">The run is undoing its work.</p>`}
    ${preview.is_cut && html`<p class="note">The lists are longer than what is shown.</p>`}`;
}

function nameOfItem(item) {
  if (item === null || typeof item !== "object") return String(item);
  const { key, name, node, visit, times } = item;
  const text = [key ?? name, node && (key ?? name ? `of ${node}` : node)].filter(Boolean).join(" ");
  const rest = [visit && `visit ${visit}`, times > 1 && plural(times, "time")].filter(Boolean).join(", ");
  return (text || JSON.stringify(item)) + (rest ? ` (${rest})` : "");
}

/** What an action did. */
function Result({ outcome, onClose }) {
  return html`<div class="action" role="status"><p><${Badge} tone=${TONES[outcome.outcome] ?? "quiet"}>${words(outcome.outcome)}<//></p>
    <p class="result-text">${visible(outcome.text, { lines: true })}</p>
    ${onClose && html`<div class="dialog-foot"><${Button} kind="primary" onClick=${onClose}>Close<//></div>`}</div>`;
}
