// The filters of the page of runs: one field that takes a pasted command, chips for the status, and
// fields for the rest.

import { classes, html, useId, useState } from "../lib.js";
import { Icon } from "../icons.js";
import { visible } from "../text.js";
import { Button } from "../ui.js";
import { checked, fromText, NONE, STATUSES, toUrl } from "./filters.js";
import { statusLook } from "./words.js";

const SINCE = [["", "any time"], ["15m", "15 minutes"], ["1h", "1 hour"], ["24h", "24 hours"], ["7d", "7 days"], ["30d", "30 days"]];
const MORE = ["graph", "tag", "id-prefix", "before"];

/** Shows `filters`, and reports changed ones to `onFilters`. */
export function FilterBar({ filters, onFilters }) {
  const id = useId();
  const [problem, setProblem] = useState(null);
  const take = (result) => {
    setProblem(result.problem ?? null);
    if (result.filters) onFilters({ ...result.filters, "group-by": result.filters["group-by"] || filters["group-by"] });
  };
  const apply = (changed) => take(checked({ ...filters, ...changed }));
  const onPaste = (event) => {
    event.preventDefault();
    const field = event.currentTarget.elements.text;
    take(fromText(field.value));
    field.value = "";
  };
  const chosen = filters.failed ? "failed" : filters.status;
  return html`<div class="filters" role="search">
    <div class="filter-line">
      <form class="filter-paste" onSubmit=${onPaste}>
        <label class="filter"><${Icon} name="search" size=${14} /><span class="unseen">The beginning of an id, or a command to paste</span>
          <input name="text" type="search" data-filter placeholder="Id, or paste: pleach runs list … --failed" autocomplete="off" spellcheck=${false} /></label>
      </form>
      <label class="filter-since"><span>Since</span> <select onChange=${(event) => apply({ since: event.currentTarget.value })}>
        ${withOwn(SINCE, filters.since).map(([value, text]) => html`<option key=${value} value=${value} selected=${value === filters.since}>${text}</option>`)}</select></label>
      <${MoreFilters} key=${MORE.map((name) => filters[name]).join("\n")} filters=${filters} onApply=${apply} />
    </div>
    <div class="chips" role="radiogroup" aria-label="Status">
      <${Chip} name=${id} isChosen=${chosen === ""} onChoose=${() => apply({ status: "", failed: false })} text="all" />
      ${STATUSES.map((status) => html`<${Chip} key=${status} name=${id} status=${status} isChosen=${chosen === status} onChoose=${() => apply({ status, failed: false })} text=${status} />`)}
    </div>
    <${Active} filters=${filters} onApply=${apply} onClear=${() => onFilters({ ...NONE, "group-by": filters["group-by"] })} />
    ${problem && html`<p class="field-problem" role="alert">${visible(problem)}</p>`}
  </div>`;
}

function MoreFilters({ filters, onApply }) {
  const submit = (event) => {
    event.preventDefault();
    const { elements } = event.currentTarget;
    onApply(Object.fromEntries(MORE.map((name) => [name, elements[name].value.trim()])));
  };
  const field = (name, text, placeholder) => html`<label class="field"><span>${text}</span><input name=${name} defaultValue=${filters[name]} value=${filters[name]} placeholder=${placeholder} autocomplete="off" spellcheck=${false} /></label>`;
  return html`<details class="filter-more"><summary class="button">More filters</summary>
    <form class="card filter-card" onSubmit=${submit}>
      ${field("graph", "Graph")}${field("tag", "Tag", "key=value")}${field("id-prefix", "Id begins with")}${field("before", "Before", "2h or 2026-11-17T09:30:00Z")}
      <button type="submit" class="button button-primary">Apply</button>
    </form></details>`;
}

/** The filters that hold now, each with a button that removes it. */
function Active({ filters, onApply, onClear }) {
  const active = Object.entries(toUrl(filters)).filter(([name]) => !["group-by", "status", "failed", "since"].includes(name));
  if (active.length === 0) return null;
  return html`<p class="filter-active">${active.map(([name, value]) => html`<span class="chip" key=${name}><span class="tag-key">${name}</span> ${visible(value)}
    <${Button} kind="quiet" icon="close" label="Remove the filter ${name}" onClick=${() => onApply({ [name]: "" })} /></span>`)}
    <${Button} kind="quiet" onClick=${onClear}>Clear all<//></p>`;
}

function withOwn(options, value) {
  return options.some(([known]) => known === value) ? options : [...options, [value, visible(value)]];
}

function Chip({ name, status, isChosen, onChoose, text }) {
  const { icon, tone } = status ? statusLook(status) : {};
  return html`<label class=${classes("status-chip", isChosen && "is-chosen", tone && `tone-${tone}`)}>
    <input type="radio" class="unseen" name=${name} checked=${isChosen} onChange=${onChoose} />${icon && html`<${Icon} name=${icon} size=${12} />`}${text}</label>`;
}
