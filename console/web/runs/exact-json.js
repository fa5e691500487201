// Reads and lays out JSON texts without losing a digit.
//
// States, questions and answers of a program travel as texts, because a number above 2^53 does not
// survive `JSON.parse`. This module never turns a number into a value: a number stays the text that
// the program wrote. Only Rust decides whether a text is a valid state.

/** The deepest nesting that is read. Rust refuses more than 128 levels itself. */
const DEPTH_MAX = 128;

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;
const SPACE = /[ \t\n\r]*/y;

/** A text that is not JSON, with the place where it stops being JSON. */
export class NotJson extends Error {
  constructor(text, at, what) {
    const { line, column } = placeOf(text, at);
    super(`${what} at line ${line}, column ${column}`);
    this.at = at;
    this.line = line;
    this.column = column;
  }
}

/**
 * Parses a text. Each node has `kind` and `text`, which is its part of the text; objects have
 * `entries` (`key`, `keyText`, `value`) in their order, arrays `items`, strings `value`.
 * Throws `NotJson`.
 */
export function parse(text) {
  const reader = { text, at: 0 };
  skip(reader);
  const node = read(reader, 0);
  skip(reader);
  if (reader.at < text.length) throw new NotJson(text, reader.at, "something follows the value");
  return node;
}

/** Returns the parsed text, or null if it is not JSON. */
export function tryParse(text) {
  try {
    return typeof text === "string" ? parse(text) : null;
  } catch {
    return null;
  }
}

function read(reader, depth) {
  if (depth > DEPTH_MAX) throw new NotJson(reader.text, reader.at, "the nesting is too deep");
  const from = reader.at;
  const first = reader.text[from];
  if (first === "{") return readObject(reader, depth, from);
  if (first === "[") return readArray(reader, depth, from);
  if (first === '"') {
    const text = token(reader, STRING, "a string is not complete");
    return { kind: "string", text, value: JSON.parse(text) };
  }
  if (first === "-" || (first >= "0" && first <= "9")) {
    return { kind: "number", text: token(reader, NUMBER, "a number is not complete") };
  }
  const word = token(reader, WORD, from < reader.text.length ? "this is not a value" : "a value is missing");
  return { kind: word === "null" ? "null" : "bool", text: word };
}

function readObject(reader, depth, from) {
  const entries = [];
  reader.at += 1;
  skip(reader);
  while (reader.text[reader.at] !== "}") {
    if (entries.length > 0) expect(reader, ",", "a comma is missing");
    skip(reader);
    const keyText = token(reader, STRING, "the name of a field is missing");
    skip(reader);
    expect(reader, ":", "a colon is missing");
    skip(reader);
    entries.push({ key: JSON.parse(keyText), keyText, value: read(reader, depth + 1) });
    skip(reader);
  }
  reader.at += 1;
  return { kind: "object", text: reader.text.slice(from, reader.at), entries };
}

function readArray(reader, depth, from) {
  const items = [];
  reader.at += 1;
  skip(reader);
  while (reader.text[reader.at] !== "]") {
    if (items.length > 0) expect(reader, ",", "a comma is missing");
    skip(reader);
    items.push(read(reader, depth + 1));
    skip(reader);
  }
  reader.at += 1;
  return { kind: "array", text: reader.text.slice(from, reader.at), items };
}

function skip(reader) {
  SPACE.lastIndex = reader.at;
  reader.at += SPACE.exec(reader.text)[0].length;
}

function token(reader, pattern, complaint) {
  pattern.lastIndex = reader.at;
  const found = pattern.exec(reader.text);
  if (!found) throw new NotJson(reader.text, reader.at, complaint);
  reader.at += found[0].length;
  return found[0];
}

function expect(reader, character, complaint) {
  if (reader.text[reader.at] !== character) throw new NotJson(reader.text, reader.at, complaint);
  reader.at += 1;
}

/**
 * Lays a text out in lines. Only white space between values changes; a text that is not JSON is
 * returned as it is.
 */
export function layOut(text, indent = "  ") {
  const node = tryParse(text);
  return node ? write(node, indent, "") : text;
}

function write(node, indent, before) {
  const inner = before + indent;
  if (node.kind === "object" && node.entries.length > 0) {
    const lines = node.entries.map(({ keyText, value }) => `${inner}${keyText}: ${write(value, indent, inner)}`);
    return `{\n${lines.join(",\n")}\n${before}}`;
  }
  if (node.kind === "array" && node.items.length > 0) {
    const lines = node.items.map((item) => inner + write(item, indent, inner));
    return `[\n${lines.join(",\n")}\n${before}]`;
  }
  if (node.kind === "object") return "{}";
  if (node.kind === "array") return "[]";
  return node.text;
}

/** Returns one field of an object node, or undefined. The last one counts, as in Rust. */
export function field(node, key) {
  return node?.kind === "object" ? node.entries.findLast((entry) => entry.key === key)?.value : undefined;
}

/** Returns a text for people: a string without its quotes, anything else as it is. */
export function words(text) {
  const node = tryParse(text);
  return node?.kind === "string" ? node.value : (text ?? "");
}

/** Returns the line and the column of an index, both from 1. */
export function placeOf(text, at) {
  const before = text.slice(0, at);
  const line = before.split("\n").length;
  return { line, column: at - before.lastIndexOf("\n") };
}

/**
 * Returns the index of a place that Rust reported. Rust counts the bytes of a line, a browser counts
 * UTF-16 units. A place outside the text becomes its nearest end.
 */
export function indexOf(text, line, byteColumn) {
  let from = 0;
  for (let at = 1; at < line; at += 1) {
    const next = text.indexOf("\n", from);
    if (next < 0) return text.length;
    from = next + 1;
  }
  let bytes = 1;
  for (const character of text.slice(from)) {
    if (character === "\n" || bytes >= byteColumn) break;
    bytes += bytesOf(character.codePointAt(0));
    from += character.length;
  }
  return from;
}

function bytesOf(code) {
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  return code < 0x10000 ? 3 : 4;
}

/** Finds `line 3 column 14` in an error of Rust, or returns null. */
export function placeInError(error) {
  const found = /\bline (\d+),? column (\d+)/.exec(error ?? "");
  return found ? { line: Number(found[1]), column: Number(found[2]) } : null;
}
