// The ledger: every accepted message of a subtree is somewhere. Red when the counts do not add up.

import { html } from "../lib.js";
import { Badge, Section } from "../ui.js";
import { count, plural } from "../text.js";

const PARTS = [
  ["handled", "Handled", "ok"], ["failed", "Failed", "error"], ["dead_lettered", "Dead-lettered", "warning"],
  ["queued", "Queued", "busy"], ["stashed", "Stashed", "waiting"], ["in_handler", "In a handler", "quiet"],
];

export function Ledger({ ledger }) {
  if (!ledger) return null;
  const { accepted, members, difference, is_complete: isComplete } = ledger;
  const sum = Math.max(1, PARTS.reduce((all, [name]) => all + (ledger[name] ?? 0), 0));
  const isEven = difference === 0;
  return html`<${Section} title="Ledger" class=${isEven || !isComplete ? "" : "ledger-wrong"} aside=${`${plural(members, "member")}`}>
    <div class="card ledger"><div class="ledger-bar" aria-hidden="true">${PARTS.filter(([name]) => ledger[name] > 0).map(([name, , tone]) => html`<span key=${name} class=${`tone-${tone}`} style=${{ flexGrow: Math.max(ledger[name] / sum, 0.006) }}></span>`)}</div>
    <table class="ledger-table"><caption class="unseen">Where the accepted messages are</caption><tbody>
      <tr class="ledger-all"><th scope="row">Accepted</th><td>${count(accepted)}</td></tr>
      ${PARTS.map(([name, title, tone]) => html`<tr key=${name} class=${ledger[name] > 0 ? "" : "zero"}><th scope="row"><span class=${`swatch tone-${tone}`} aria-hidden="true"></span>${title}</th><td>${count(ledger[name] ?? 0)}</td></tr>`)}
      <tr class="ledger-rest"><th scope="row">Difference</th><td>${count(difference)}</td></tr></tbody></table>
    <${Verdict} difference=${difference} isComplete=${isComplete} /></div><//>`;
}

function Verdict({ difference, isComplete }) {
  if (!isComplete) return html`<p class="note"><${Badge} tone="quiet" icon="info">not complete<//> Not every member could be counted, so this need not add up.</p>`;
  if (difference === 0) return html`<p><${Badge} tone="ok">adds up<//></p>`;
  const number = Math.abs(difference);
  const are = number === 1 ? "is" : "are";
  const text = difference > 0 ? `${plural(number, "accepted message")} ${are} nowhere.` : `${plural(number, "message")} ${are} counted twice.`;
  return html`<p role="alert"><${Badge} tone="error">does not add up<//> ${text} Please report this.</p>`;
}
