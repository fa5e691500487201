// Small parts that the pages of runs share.

import { html } from "../lib.js";
import { link } from "../router.js";
import { store } from "../sources.js";
import { count, plural, visible } from "../text.js";
import { Badge, Button, Command, PageHead } from "../ui.js";
import { Empty } from "../states.js";
import { JsonButton } from "../dialog.js";
import { statusLook } from "./words.js";

/** The status of a run. `note` follows its word. */
export function Status({ status, note }) {
  const { tone, icon } = statusLook(status);
  return html`<${Badge} tone=${tone} icon=${icon}>${visible(status)}${note ? `, ${note}` : ""}<//>`;
}

/** The id of a run, as a link to its page. */
export function RunLink({ run, params = {} }) {
  return html`<a class="run-id" href=${link("/run", { store: store.value?.key, run, ...params })}>${visible(run)}</a>`;
}

/** The tags of a run. */
export function Tags({ tags }) {
  const pairs = Object.entries(tags ?? {});
  if (pairs.length === 0) return null;
  return html`<span class="tags">${pairs.map(([key, value]) => html`<span class="chip" key=${key}><span class="tag-key">${visible(key)}</span> ${visible(value)}</span>`)}</span>`;
}

/** Announces rows that are not shown yet. */
export function ShowNew({ number, one, many, onShow }) {
  return html`<div class="show-new" role="status">${number > 0 && html`<${Button} icon="down" onClick=${onShow}>${number === 1 ? `1 new ${one}` : `${count(number)} new ${many}`}: show<//>`}</div>`;
}

/** The head of a page of a store: its title, its command and its JSON. */
export function StoreHead({ title, query, command, children }) {
  return html`<${PageHead} title=${title} tools=${html`${command && html`<${Command} text=${command} />`}${query && html`<${JsonButton} query=${query} />`}`}>${children}<//>`;
}

/** What a page of runs shows if the console has no store. */
export function NoStore({ title }) {
  return html`<${PageHead} title=${title} /><${Empty} icon="runs" title="This console shows no store"
    text="Durable runs live in a store. Start the console with one, or give it to the console of the program." />`;
}

/** The links between the pages of a list. */
export function Pager({ label, text, newest, older, olderText = "Older" }) {
  if (!text && !newest && !older) return null;
  return html`<nav class="pager" aria-label=${label}><span>${text}</span>
    ${newest && html`<a class="button" href=${newest}>Newest</a>`}${older && html`<a class="button" href=${older}>${olderText}</a>`}</nav>`;
}

/** A count with its noun, and a plus if it was cut. */
export function countOf(number, isCut, one, many) {
  return isCut ? `${count(number)}+ ${many ?? `${one}s`}` : plural(number, one, many);
}
