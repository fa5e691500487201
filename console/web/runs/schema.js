// Forms from a JSON schema. Pure.
//
// A schema becomes a tree of fields. What a person enters stays text, and becomes one JSON text at
// the end: numbers are written as they were typed. What this module does not understand becomes a
// field for JSON text, so every schema has a form.

import { field as member, layOut, NotJson, parse, tryParse } from "./exact-json.js";

const DEPTH_MAX = 12;

/** The most fields of a form. The rest are fields for JSON text. */
const FIELDS_MAX = 400;

const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;
const INTEGER = /^-?(?:0|[1-9][0-9]*)$/;

/**
 * Returns the field of a schema, given as JSON text. Kinds: `text`, `number`, `integer`, `bool`,
 * `choice` (`options` of `label`, `text`), `object` (`fields`), `array` (`item`), `either`
 * (`cases` of `label`, `field`), `constant` (`text`) and `json`.
 */
export function formOf(schemaText) {
  const schema = tryParse(schemaText);
  return schema ? read(schema, { schema, left: FIELDS_MAX }, 0) : plain("json", schema);
}

function plain(kind, schema, more = {}) {
  return { kind, title: text(schema, "title"), about: text(schema, "description"), isRequired: true, ...more };
}

function text(schema, key) {
  const found = member(schema, key);
  return found?.kind === "string" ? found.value : "";
}

function read(given, root, depth) {
  const schema = resolved(given, root.schema);
  root.left -= 1;
  if (root.left < 0 || !schema || schema.kind !== "object" || depth > DEPTH_MAX) return plain("json", schema);
  const initial = member(schema, "default");
  const made = readKind(schema, root, depth);
  return initial && made.kind !== "constant" ? { ...made, initial: initial.text } : made;
}

/** Follows `$ref` within the schema. Texts beside the reference stay. */
function resolved(schema, root) {
  let found = schema;
  for (let step = 0; step < DEPTH_MAX; step += 1) {
    const all = member(found, "allOf");
    if (all?.kind === "array" && all.items.length === 1) found = merged(found, all.items[0], "allOf");
    const reference = member(found, "$ref");
    if (reference?.kind !== "string" || !reference.value.startsWith("#")) return found;
    let target = root;
    for (const part of reference.value.slice(1).split("/").filter(Boolean)) {
      target = member(target, decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
    }
    if (!target) return null;
    found = merged(found, target, "$ref");
  }
  return null;
}

function merged(outer, inner, without) {
  if (inner.kind !== "object") return inner;
  return { kind: "object", entries: [...inner.entries, ...outer.entries.filter((entry) => entry.key !== without)] };
}

function readKind(schema, root, depth) {
  const constant = member(schema, "const");
  if (constant) return plain("constant", schema, { text: constant.text });
  const values = member(schema, "enum");
  if (values?.kind === "array") return choice(schema, values.items.map((value) => ({ label: labelOf(value), text: value.text })));
  const cases = member(schema, "oneOf") ?? member(schema, "anyOf");
  if (cases?.kind === "array" && cases.items.length > 0) return either(schema, cases.items, root, depth);
  const type = member(schema, "type");
  if (type?.kind === "array") return severalTypes(schema, type.items, root, depth);
  switch (type?.value) {
    case "string": return plain("text", schema, { isLong: isLong(schema), format: text(schema, "format") });
    case "integer":
    case "number": return plain(type.value, schema, { from: member(schema, "minimum")?.text, to: member(schema, "maximum")?.text });
    case "boolean": return plain("bool", schema);
    case "null": return plain("constant", schema, { text: "null" });
    case "array": return arrayOf(schema, root, depth);
    case "object": return objectOf(schema, root, depth);
    default: return member(schema, "properties") ? objectOf(schema, root, depth) : plain("json", schema);
  }
}

function isLong(schema) {
  const most = Number(member(schema, "maxLength")?.text ?? 0);
  return most > 120 || text(schema, "format") === "multiline";
}

function labelOf(value) {
  return value.kind === "string" ? value.value : value.text;
}

function choice(schema, options) {
  return plain("choice", schema, { options });
}

function either(schema, items, root, depth) {
  const cases = items.map((item) => read(item, root, depth + 1));
  if (cases.every((one) => one.kind === "constant" || one.kind === "choice")) {
    return choice(schema, cases.flatMap((one) => one.options ?? [{ label: one.title || labelOf(parse(one.text)), text: one.text, about: one.about }]));
  }
  const isNull = (one) => one.kind === "constant" && one.text === "null";
  const others = cases.filter((one) => !isNull(one));
  if (others.length === 1 && others.length < cases.length) {
    const [only] = others;
    return { ...only, title: text(schema, "title") || only.title, about: text(schema, "description") || only.about, isNullable: true };
  }
  return plain("either", schema, { cases: cases.map((one, at) => ({ label: one.title || caseLabel(one, at), field: one })) });
}

/** An enum of Rust is an object with one field, or with a tag; both have a name. */
function caseLabel(one, at) {
  if (one.kind === "object" && one.fields.length > 0) {
    const tag = one.fields.find(({ field }) => field.kind === "constant");
    if (tag) return labelOf(parse(tag.field.text));
    if (one.fields.length === 1) return one.fields[0].key;
  }
  return one.kind === "constant" ? one.text : `${at + 1}: ${one.kind}`;
}

function severalTypes(schema, types, root, depth) {
  const names = types.map((type) => type.value).filter((type) => type !== "null");
  const isNullable = names.length < types.length;
  if (names.length !== 1) return plain("json", schema);
  const only = { kind: "object", entries: [...schema.entries.filter((entry) => entry.key !== "type"), { key: "type", value: { kind: "string", value: names[0] } }] };
  return { ...read(only, root, depth + 1), isNullable };
}

function arrayOf(schema, root, depth) {
  const items = member(schema, "items");
  if (items?.kind !== "object") return plain("json", schema);
  return plain("array", schema, { item: read(items, root, depth + 1), least: Number(member(schema, "minItems")?.text ?? 0) });
}

function objectOf(schema, root, depth) {
  const properties = member(schema, "properties");
  if (properties?.kind !== "object" || properties.entries.length === 0) return plain("json", schema);
  const required = new Set((member(schema, "required")?.items ?? []).map((item) => item.value));
  const fields = properties.entries.map(({ key, value }) => ({ key, field: { ...read(value, root, depth + 1), isRequired: required.has(key) } }));
  return plain("object", schema, { fields });
}

/** Returns what a field has before anybody enters something. */
export function emptyOf(field) {
  if (field.initial !== undefined) return fromText(field, field.initial);
  switch (field.kind) {
    case "object": return Object.fromEntries(field.fields.map(({ key, field: inner }) => [key, emptyOf(inner)]));
    case "array": return Array.from({ length: Math.min(field.least, 20) }, () => emptyOf(field.item));
    case "either": return { at: 0, values: field.cases.map((one) => emptyOf(one.field)) };
    default: return "";
  }
}

/** Returns what a field has for a JSON text, as far as it fits. */
function fromText(field, given) {
  const node = tryParse(given);
  if (!node) return emptyOf({ ...field, initial: undefined });
  if (field.kind === "text") return node.kind === "string" ? node.value : "";
  if (field.kind === "object" && node.kind === "object") {
    return Object.fromEntries(field.fields.map(({ key, field: inner }) => {
      const value = member(node, key);
      return [key, value ? fromText(inner, value.text) : emptyOf(inner)];
    }));
  }
  if (field.kind === "array" && node.kind === "array") return node.items.map((item) => fromText(field.item, item.text));
  if (["object", "array", "either"].includes(field.kind)) return emptyOf({ ...field, initial: undefined });
  return field.kind === "json" ? layOut(node.text) : node.text;
}

/**
 * Returns the JSON text of what was entered, and `problems`: for each path of a field what is wrong
 * with it. `text` is null if there are problems.
 */
export function answerOf(field, value) {
  const problems = {};
  const made = write(field, value, "", problems);
  return { text: Object.keys(problems).length === 0 ? (made ?? "null") : null, problems };
}

/** Returns the text of a field, or undefined if it was left empty and may be. */
function write(field, value, path, problems) {
  const empty = () => {
    if (field.isNullable) return field.isRequired ? "null" : undefined;
    if (field.isRequired) problems[path] = "This is needed.";
    return undefined;
  };
  switch (field.kind) {
    case "constant": return field.text;
    case "text": return value === "" && (field.isNullable || !field.isRequired) ? empty() : JSON.stringify(value);
    case "bool":
    case "choice": return value === "" ? empty() : value;
    case "integer":
    case "number": return value.trim() === "" ? empty() : number(field, value.trim(), path, problems);
    case "json": return value.trim() === "" ? empty() : json(value, path, problems);
    case "object": return object(field, value, path, problems);
    case "array": return `[${value.map((item, at) => write({ ...field.item, isRequired: true }, item, `${path}/${at}`, problems)).join(",")}]`;
    case "either": return write(field.cases[value.at].field, value.values[value.at], `${path}/${value.at}`, problems);
    default: return undefined;
  }
}

function object(field, value, path, problems) {
  const isUntouched = !field.isRequired && path !== "" && JSON.stringify(value) === JSON.stringify(emptyOf(field));
  if (isUntouched) return field.isNullable ? "null" : undefined;
  const parts = [];
  for (const { key, field: inner } of field.fields) {
    const made = write(inner, value[key], `${path}/${key}`, problems);
    if (made !== undefined) parts.push(`${JSON.stringify(key)}:${made}`);
  }
  return `{${parts.join(",")}}`;
}

function number(field, value, path, problems) {
  const pattern = field.kind === "integer" ? INTEGER : NUMBER;
  if (!pattern.test(value)) problems[path] = field.kind === "integer" ? "This is not a whole number." : "This is not a number.";
  return value;
}

function json(value, path, problems) {
  try {
    return parse(value).text;
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    problems[path] = `This is not JSON: ${error.message}.`;
    return undefined;
  }
}

/** Guesses what kind of answer a question wants that has no schema: `text`, `bool` or `json`. */
export function guessedKind(questionText) {
  const question = tryParse(questionText);
  const words = question?.kind === "string" ? question.value : "";
  return /^\s*(approve|ship|allow|continue|proceed|is|are|do|does|may|shall|should|can|ok)\b.*\?\s*$/is.test(words) ? "bool" : "text";
}

/** Makes the JSON text of an answer without a schema. Returns `text`, or `problem`. */
export function plainAnswer(kind, value) {
  if (kind === "text") return { text: JSON.stringify(value) };
  if (kind === "bool") return value === "true" || value === "false" ? { text: value } : { problem: "Choose yes or no." };
  if (kind === "number") {
    return NUMBER.test(value.trim()) ? { text: value.trim() } : { problem: "This is not a number." };
  }
  const problems = {};
  const made = value.trim() === "" ? undefined : json(value, "", problems);
  return made === undefined ? { problem: problems[""] ?? "An answer is needed." } : { text: made };
}
