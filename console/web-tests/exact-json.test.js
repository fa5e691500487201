import assert from "node:assert/strict";
import { test } from "node:test";
import { field, indexOf, layOut, NotJson, parse, placeInError, placeOf, tryParse, words } from "../web/runs/exact-json.js";

const BIG = '{"id":9223372036854775807,"tenth":0.1,"exp":1e400,"minus":-0,"long":0.10000000000000000555}';

test("numbers stay the text that was written", () => {
  const node = parse(BIG);
  assert.equal(field(node, "id").text, "9223372036854775807");
  assert.deepEqual(node.entries.map((entry) => entry.value.text), [
    "9223372036854775807", "0.1", "1e400", "-0", "0.10000000000000000555",
  ]);
});

test("laying out changes white space only", () => {
  const text = '{"\\u0061":[1,{"b":"x, {y}: \\u0041\\n"},[]],"c":{},"id":18446744073709551615}';
  const laid = layOut(text);
  assert.ok(laid.includes("\n"));
  assert.equal(laid.replace(/\n */g, "").replaceAll('": ', '":'), text.replaceAll('": ', '":'));
  assert.equal(layOut(laid), laid);
});

test("a text that is not JSON is kept", () => {
  assert.equal(layOut('{"a": 01}'), '{"a": 01}');
  assert.equal(tryParse("{"), null);
  assert.equal(tryParse(undefined), null);
});

test("errors name the place", () => {
  for (const [text, line, column] of [
    ['{\n  "a": 1\n  "b": 2}', 3, 3],
    ["[1,]", 1, 4],
    ["tru", 1, 1],
    ["1 2", 1, 3],
    ["", 1, 1],
    ['"a\nb"', 1, 1],
    ['{"a":1,}', 1, 8],
  ]) {
    assert.throws(() => parse(text), (error) => error instanceof NotJson && error.line === line && error.column === column, text);
  }
});

test("nesting is bounded", () => {
  assert.throws(() => parse("[".repeat(100_000)), /too deep/);
});

test("places of Rust are found, in bytes of a line", () => {
  const text = '{\n  "größe": x\n}';
  // serde_json counts bytes: ö and ß have two each.
  assert.equal(text[indexOf(text, 2, 14)], "x");
  assert.equal(indexOf(text, 9, 1), text.length);
  assert.deepEqual(placeOf(text, text.indexOf("x")), { line: 2, column: 12 });
  assert.deepEqual(placeInError("expected value at line 2 column 14"), { line: 2, column: 14 });
  assert.equal(placeInError("no place"), null);
});

test("strings are shown without quotes, other values as they are", () => {
  assert.equal(words('"ship rice?"'), "ship rice?");
  assert.equal(words("12345678901234567890"), "12345678901234567890");
  assert.equal(words(null), "");
});
