// Dialogs: one native `<dialog>` for each, so the browser keeps the focus inside and Escape closes.

import { html, signal, useEffect, useId, useRef } from "./lib.js";
import { saveFile } from "./api.js";
import { Button, CopyButton } from "./ui.js";
import { Boundary, Shown } from "./states.js";
import { useOnce } from "./live.js";
import { place } from "./router.js";
import { visible, visibleJson } from "./text.js";

/** The open dialogs, the newest last: functions that render one. */
const open = signal([]);

/** Opens a dialog. `render(close)` returns its `Dialog`. */
export function openDialog(render) {
  const entry = { render, before: document.activeElement };
  entry.close = () => {
    if (!open.value.includes(entry)) return;
    open.value = open.value.filter((other) => other !== entry);
    if (entry.before?.isConnected) entry.before.focus();
  };
  open.value = [...open.value, entry];
  return entry.close;
}

/** True while a dialog is open. */
export const isDialogOpen = () => open.value.length > 0;

/** The place of all dialogs in the page. They close when the reader goes to another page. */
export function Dialogs() {
  const { route } = place.value;
  const former = useRef(route);
  useEffect(() => {
    if (former.current !== route) open.value = [];
    former.current = route;
  }, [route]);
  return open.value.map((entry, index) => html`<${Boundary} key=${index}>${entry.render(entry.close)}<//>`);
}

/** A dialog. `describedBy` is the id of the consequence, for dialogs that ask to confirm. */
export function Dialog({ title, onClose, children, class: more = "", describedBy }) {
  const ref = useRef(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (!dialog.open) dialog.showModal();
    return () => dialog.close();
  }, []);
  const onCancel = (event) => {
    event.preventDefault();
    onClose();
  };
  const onClick = (event) => event.target === ref.current && onClose();
  return html`<dialog ref=${ref} class=${`dialog ${more}`} aria-labelledby=${id} aria-describedby=${describedBy} onCancel=${onCancel} onMouseDown=${onClick}>
    <div class="dialog-body"><div class="dialog-head"><h2 id=${id}>${title}</h2>
      <${Button} kind="quiet" icon="close" label="Close" onClick=${onClose} /></div>${children}</div></dialog>`;
}

/** Shows the JSON of a view, to copy or save. */
export function openJson(query) {
  openDialog((close) => html`<${JsonDialog} query=${query} onClose=${close} />`);
}

function JsonDialog({ query, onClose }) {
  const view = useOnce(query);
  return html`<${Dialog} title="JSON of this view" class="dialog-wide" onClose=${onClose}>
    <p class="note">The request is <code class="code">GET /api/view?q=${visible(JSON.stringify(query))}</code></p>
    <${Shown} of=${view}>${(value) => {
      const text = JSON.stringify(value, null, 2);
      return html`<div class="tools"><${CopyButton} kind="plain" text=${text}>Copy<//>
        <${Button} icon="save" onClick=${() => saveFile(new Blob([text], { type: "application/json" }), `${query.view}.json`)}>Save<//></div>
        <pre class="block" tabindex="0" role="region" aria-label="JSON">${visibleJson(text.length > 200_000 ? `${text.slice(0, 200_000)}\n…` : text)}</pre>`;
    }}<//>
  <//>`;
}

/** A button that shows the JSON of a view. */
export function JsonButton({ query }) {
  return html`<${Button} kind="quiet" icon="json" label="JSON of this view" onClick=${() => openJson(query)} />`;
}
