import assert from "node:assert/strict";
import { test } from "node:test";
import { child, leftOut, levelText } from "../web/runs/value-model.js";

test("pointers escape the names of fields", () => {
  assert.equal(child("", "a/b~c"), "/a~1b~0c");
  assert.equal(child("/items", 3), "/items/3");
  assert.equal(child("", ""), "/");
});

test("levels have words", () => {
  assert.deepEqual([levelText("object", 1), levelText("array", 2), levelText("null", 0)], ["1 field", "2 items", "null"]);
  assert.deepEqual([leftOut({ left_out: 70_000 }), leftOut("text"), leftOut(null)], [70_000, null, null]);
});
