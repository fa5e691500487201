// A form for an answer: from the schema of the question, or by the kind of answer without one.

import { html, useMemo, useState } from "../lib.js";
import { visible } from "../text.js";
import { Button, Code } from "../ui.js";
import { answerOf, emptyOf, formOf, guessedKind, plainAnswer } from "./schema.js";

/**
 * Asks for an answer to `question`, both as JSON text. `schema` may be null. `onSend` gets the JSON
 * text of the answer; `problem` is why the last one was refused. `id` is unique on the page.
 */
export function AnswerForm({ id, question, schema, onSend, problem, isBusy, word = "Answer" }) {
  const shared = { id, onSend, problem, isBusy, word };
  return schema ? html`<${SchemaForm} ...${shared} schema=${schema} />` : html`<${PlainForm} ...${shared} question=${question} />`;
}

function SchemaForm({ id, schema, onSend, problem, isBusy, word }) {
  const field = useMemo(() => formOf(schema), [schema]);
  const [value, setValue] = useState(() => emptyOf(field));
  const [isTried, setIsTried] = useState(false);
  const { text, problems } = answerOf(field, value);
  const onSubmit = (event) => {
    event.preventDefault();
    setIsTried(true);
    if (text !== null) onSend(text);
  };
  return html`<form class="answer-form" onSubmit=${onSubmit} noValidate>
    <${Field} id=${id} path="" field=${field} value=${value} onValue=${setValue} problems=${isTried ? problems : {}} />
    <${Send} ...${{ problem, isBusy, word, text }} />
  </form>`;
}

const KINDS = [["text", "Text"], ["bool", "Yes or no"], ["number", "Number"], ["json", "JSON"]];

function PlainForm({ id, question, onSend, problem, isBusy, word }) {
  const [kind, setKind] = useState(() => guessedKind(question));
  const [value, setValue] = useState("");
  const [isTried, setIsTried] = useState(false);
  const made = plainAnswer(kind, value);
  const onSubmit = (event) => {
    event.preventDefault();
    setIsTried(true);
    if (made.text !== undefined) onSend(made.text);
  };
  const choose = (chosen) => () => {
    setKind(chosen);
    setValue("");
    setIsTried(false);
  };
  const field = { kind, title: "Answer", about: "", isRequired: true, isLong: true };
  return html`<form class="answer-form" onSubmit=${onSubmit} noValidate>
    <fieldset class="kinds"><legend>This question has no schema. Answer with</legend>
      ${KINDS.map(([name, label]) => html`<label key=${name}><input type="radio" name="${id}-kind" checked=${kind === name} onChange=${choose(name)} />${label}</label>`)}
    </fieldset>
    <${Field} id=${id} path="" field=${field} value=${value} onValue=${setValue} problems=${isTried && made.problem ? { "": made.problem } : {}} />
    <${Send} ...${{ problem, isBusy, word, text: made.text ?? null }} />
  </form>`;
}

function Send({ problem, isBusy, word, text }) {
  return html`<div class="answer-send">
    ${problem ? html`<p class="field-problem" role="alert">${visible(problem, { lines: true })}</p>` : null}
    <button type="submit" class="button button-primary" disabled=${isBusy}>${word}…</button>
    ${text !== null ? html`<span class="answer-text"><small>sends</small> <${Code} text=${text} /></span>` : null}
  </div>`;
}

function Field(props) {
  const { id, path, field, label } = props;
  const own = { ...props, id: path === "" ? id : `${id}${path.replaceAll("/", "-")}`, label: label ?? (field.title || lastPart(path) || "Answer") };
  switch (field.kind) {
    case "constant": return null;
    case "object": return html`<${ObjectField} ...${own} />`;
    case "array": return html`<${ArrayField} ...${own} />`;
    case "either": return html`<${EitherField} ...${own} />`;
    default: return html`<${PlainField} ...${own} />`;
  }
}

function lastPart(path) {
  return path.slice(path.lastIndexOf("/") + 1).replaceAll("_", " ");
}

function ObjectField({ id, path, field, value, onValue, problems, label }) {
  const inside = field.fields.map(({ key, field: inner }) => html`<${Field} key=${key} id=${id} path="${path}/${key}" field=${inner}
    label=${inner.title || key} value=${value[key]} onValue=${(changed) => onValue({ ...value, [key]: changed })} problems=${problems} />`);
  if (path === "") return html`<div class="fields">${field.about ? html`<p class="field-about">${visible(field.about)}</p>` : null}${inside}</div>`;
  return html`<fieldset class="fields"><legend>${visible(label)}${mark(field)}</legend>${field.about ? html`<p class="field-about">${visible(field.about)}</p>` : null}${inside}</fieldset>`;
}

function ArrayField({ id, path, field, value, onValue, problems, label }) {
  const change = (at, item) => onValue(value.with(at, item));
  return html`<fieldset class="fields"><legend>${visible(label)}${mark(field)}</legend>
    ${field.about ? html`<p class="field-about">${visible(field.about)}</p>` : null}
    ${value.map((item, at) => html`<div class="array-item" key=${at}>
      <${Field} id=${id} path="${path}/${at}" field=${{ ...field.item, isRequired: true }} label="${label} ${at + 1}" value=${item} onValue=${(changed) => change(at, changed)} problems=${problems} />
      <${Button} kind="quiet" icon="close" label="Remove ${visible(label)} ${at + 1}" onClick=${() => onValue(value.toSpliced(at, 1))} />
    </div>`)}
    <${Button} class="add-one" onClick=${() => onValue([...value, emptyOf(field.item)])}>Add one<//>
  </fieldset>`;
}

function EitherField({ id, path, field, value, onValue, problems, label }) {
  const choose = (event) => onValue({ ...value, at: Number(event.target.value) });
  const chosen = field.cases[value.at].field;
  return html`<fieldset class="fields"><legend>${visible(label)}${mark(field)}</legend>
    <label class="field"><span class="field-label">Kind</span>
      <select id="${id}-kind" onChange=${choose}>${field.cases.map((one, at) => html`<option value=${at} selected=${at === value.at}>${visible(one.label)}</option>`)}</select>
    </label>
    <${Field} id=${id} path="${path}/${value.at}" field=${chosen} label=${field.cases[value.at].label} value=${value.values[value.at]}
      onValue=${(changed) => onValue({ ...value, values: value.values.with(value.at, changed) })} problems=${problems} />
  </fieldset>`;
}

function mark(field) {
  return field.isRequired && !field.isNullable ? "" : " (optional)";
}

function PlainField({ id, path, field, value, onValue, problems, label }) {
  const problem = problems[path];
  const about = [field.about ? `${id}-about` : "", problem ? `${id}-problem` : ""].filter(Boolean).join(" ");
  const control = { id, "aria-describedby": about || undefined, "aria-invalid": problem ? "true" : undefined };
  const isChoice = field.kind === "bool" || (field.kind === "choice" && field.options.length <= 4);
  const after = html`${field.about ? html`<p class="field-about" id="${id}-about">${visible(field.about)}</p>` : null}
    ${problem ? html`<p class="field-problem" id="${id}-problem">${problem}</p>` : null}`;
  if (isChoice) {
    const options = field.kind === "bool" ? [{ label: "Yes", text: "true" }, { label: "No", text: "false" }] : field.options;
    return html`<fieldset class="field choices" id=${id} aria-describedby=${about || undefined}><legend>${visible(label)}${mark(field)}</legend>
      ${options.map((option) => html`<label key=${option.text} title=${option.about ? visible(option.about) : undefined}><input type="radio" name=${id} checked=${value === option.text} onChange=${() => onValue(option.text)} />${visible(option.label)}</label>`)}
      ${after}</fieldset>`;
  }
  return html`<div class="field"><label class="field-label" for=${id}>${visible(label)}${mark(field)}</label>
    <${Control} field=${field} value=${value} control=${control} onInput=${(event) => onValue(event.target.value)} />${after}</div>`;
}

function Control({ field, value, control, onInput }) {
  if (field.kind === "choice") {
    return html`<select ...${control} onChange=${onInput}><option value="" selected=${value === ""}>Choose…</option>
      ${field.options.map((option) => html`<option value=${option.text} selected=${value === option.text}>${visible(option.label)}</option>`)}</select>`;
  }
  if (field.kind === "json") return html`<textarea ...${control} class="is-code" rows="5" spellcheck=${false} value=${value} onInput=${onInput}></textarea>`;
  if (field.kind === "text" && field.isLong) return html`<textarea ...${control} rows="3" value=${value} onInput=${onInput}></textarea>`;
  const mode = field.kind === "integer" ? "numeric" : field.kind === "number" ? "decimal" : undefined;
  const range = field.from !== undefined || field.to !== undefined ? `${field.from ?? ""} to ${field.to ?? ""}` : undefined;
  return html`<input ...${control} type="text" inputmode=${mode} placeholder=${range} autocomplete="off" value=${value} onInput=${onInput} />`;
}
