import assert from "node:assert/strict";
import { test } from "node:test";
import { answerOf, emptyOf, formOf, guessedKind, plainAnswer } from "../web/runs/schema.js";

const form = (schema) => formOf(typeof schema === "string" ? schema : JSON.stringify(schema));

test("numbers are written as they were typed", () => {
  const field = form({ type: "object", required: ["cents", "rate"], properties: { cents: { type: "integer" }, rate: { type: "number" } } });
  assert.deepEqual(answerOf(field, { cents: "9223372036854775807", rate: "0.10000000000000000555" }), {
    text: '{"cents":9223372036854775807,"rate":0.10000000000000000555}', problems: {},
  });
  const wrong = answerOf(field, { cents: "1.5", rate: "0x1" });
  assert.deepEqual([wrong.text, Object.keys(wrong.problems)], [null, ["/cents", "/rate"]]);
});

test("values of an enum keep every digit", () => {
  const field = form('{"enum":["red",18446744073709551615,null]}');
  assert.deepEqual(field.options.map(({ text }) => text), ['"red"', "18446744073709551615", "null"]);
  assert.equal(answerOf(field, "18446744073709551615").text, "18446744073709551615");
});

test("optional fields can be left empty, required ones cannot", () => {
  const field = form({ type: "object", required: ["ok"], properties: { ok: { type: "boolean" }, note: { type: "string" }, more: { type: ["integer", "null"] } } });
  const value = emptyOf(field);
  assert.deepEqual(Object.keys(answerOf(field, value).problems), ["/ok"]);
  assert.equal(answerOf(field, { ...value, ok: "true" }).text, '{"ok":true}');
  assert.equal(answerOf(field, { ok: "false", note: 'a "b"', more: "7" }).text, '{"ok":false,"note":"a \\"b\\"","more":7}');
});

test("schemas of Rust enums are choices", () => {
  const tagged = form({
    $defs: { Ship: { type: "object", required: ["kind", "by"], properties: { kind: { const: "ship" }, by: { $ref: "#/$defs/By" } } }, By: { oneOf: [{ const: "air", description: "fast" }, { const: "sea" }] } },
    oneOf: [{ $ref: "#/$defs/Ship" }, { type: "object", required: ["kind"], properties: { kind: { const: "hold" } } }],
  });
  assert.deepEqual(tagged.cases.map(({ label }) => label), ["ship", "hold"]);
  const value = emptyOf(tagged);
  value.values[0].by = '"sea"';
  assert.equal(answerOf(tagged, value).text, '{"kind":"ship","by":"sea"}');
  assert.equal(answerOf(tagged, { ...value, at: 1 }).text, '{"kind":"hold"}');
});

test("an option is the type or nothing", () => {
  const field = form({ anyOf: [{ type: "string", title: "name" }, { type: "null" }] });
  assert.deepEqual([field.kind, field.isNullable], ["text", true]);
  assert.equal(answerOf(field, "").text, "null");
  assert.equal(answerOf(field, "x").text, '"x"');
});

test("lists have one field for each item", () => {
  const field = form({ type: "array", minItems: 1, items: { type: "integer" } });
  assert.deepEqual(emptyOf(field), [""]);
  assert.equal(answerOf(field, ["1", "2"]).text, "[1,2]");
  assert.deepEqual(answerOf(field, ["1", "x"]).problems, { "/1": "This is not a whole number." });
});

test("defaults are filled in, with every digit", () => {
  const field = form('{"type":"object","properties":{"cents":{"type":"integer","default":9223372036854775807},"tags":{"type":"array","items":{"type":"string"},"default":["a"]}}}');
  assert.deepEqual(emptyOf(field), { cents: "9223372036854775807", tags: ["a"] });
});

test("what is not understood is JSON text", () => {
  for (const schema of [{}, true, { type: "object" }, { type: ["string", "integer"] }, { $ref: "#/nowhere" }, "no schema"]) {
    assert.equal(form(schema).kind, "json", JSON.stringify(schema));
  }
  const problem = answerOf(form({}), '{"a": 01}').problems[""];
  assert.match(problem, /line 1, column 8/);
  assert.equal(answerOf(form({}), " [1e400] ").text, "[1e400]");
});

test("a schema that refers to itself ends in JSON text", () => {
  const field = form({ $ref: "#/$defs/Node", $defs: { Node: { type: "object", properties: { next: { $ref: "#/$defs/Node" } } } } });
  let depth = 0;
  for (let at = field; at.kind === "object"; at = at.fields[0].field) depth += 1;
  assert.ok(depth > 1 && depth < 20);
});

test("a form has a bounded number of fields", () => {
  const node = { $ref: "#/$defs/Node" };
  const properties = Object.fromEntries("abcdefgh".split("").map((key) => [key, node]));
  const count = (field) => 1 + (field.fields ?? []).reduce((sum, inner) => sum + count(inner.field), 0);
  assert.ok(count(form({ ...node, $defs: { Node: { type: "object", properties } } })) < 5_000);
});

test("answers without a schema", () => {
  assert.deepEqual(plainAnswer("text", "true"), { text: '"true"' });
  assert.deepEqual(plainAnswer("bool", "true"), { text: "true" });
  assert.deepEqual(plainAnswer("number", " 18446744073709551615 "), { text: "18446744073709551615" });
  assert.deepEqual(plainAnswer("json", "[1, 2]"), { text: "[1, 2]" });
  assert.ok(plainAnswer("json", "[1,").problem && plainAnswer("bool", "").problem && plainAnswer("number", "1,5").problem);
  assert.equal(guessedKind('"ship rice?"'), "bool");
  assert.equal(guessedKind('"What is the new address?"'), "text");
});
