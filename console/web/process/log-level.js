// The log level of a process: what to set, then what will happen.

import { html, useState } from "../lib.js";
import { ActionSteps } from "../act.js";
import { Dialog, openDialog } from "../dialog.js";
import { Button } from "../ui.js";

/** A button, if the process takes the order. */
export function LogLevel({ process }) {
  if (!process.actions?.includes("log_level")) return null;
  return html`<${Button} onClick=${() => openDialog((close) => html`<${LevelDialog} process=${process.key} onClose=${close} />`)}>Log level …<//>`;
}

function LevelDialog({ process, onClose }) {
  const [level, setLevel] = useState(null);
  const submit = (event) => {
    event.preventDefault();
    setLevel(event.currentTarget.elements.level.value.trim());
  };
  return html`<${Dialog} title="Set the log level" onClose=${onClose}>
    ${level ? html`<${ActionSteps} action=${{ kind: "log_level", process, level }} onClose=${onClose} />` : html`<form class="action" onSubmit=${submit}>
      <label class="field"><span>Level <small>such as info, or pleach=debug</small></span><input name="level" required maxlength="200" autocomplete="off" spellcheck=${false} /></label>
      <div class="dialog-foot"><button type="submit" class="button button-primary">What will happen</button></div></form>`}<//>`;
}
