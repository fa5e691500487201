import assert from "node:assert/strict";
import { test } from "node:test";
import { HEIGHT_MAX, heldOrder, piecesOf, rowsAt, scrollFor, spacerHeight, topAfter, topToShow } from "../web/window.js";

const SMALL = { total: 10_000, rowHeight: 27, height: 800 };
const LARGE = { total: 5_000_000, rowHeight: 27, height: 800 };

test("a short list scrolls like any element", () => {
  assert.equal(spacerHeight(SMALL.total, SMALL.rowHeight), 270_000);
  assert.equal(topAfter({ ...SMALL, top: 0, before: 0, now: 12_345 }), 12_345);
  assert.equal(scrollFor({ ...SMALL, top: 12_345 }), 12_345);
});

test("a long list is scaled: both ends can be reached and small steps move by pixels", () => {
  assert.equal(spacerHeight(LARGE.total, LARGE.rowHeight), HEIGHT_MAX);
  const end = LARGE.total * LARGE.rowHeight - LARGE.height;
  assert.equal(topAfter({ ...LARGE, top: 0, before: 0, now: HEIGHT_MAX - LARGE.height }), end);
  assert.equal(topAfter({ ...LARGE, top: 5e6, before: 4e6, now: 0 }), 0);
  assert.equal(topAfter({ ...LARGE, top: 5e6, before: 4e6, now: 4e6 + 100 }), 5e6 + 100);
  const jumped = topAfter({ ...LARGE, top: 0, before: 0, now: 4e6 });
  assert.ok(Math.abs(scrollFor({ ...LARGE, top: jumped }) - 4e6) < 1);
});

test("every row of a long list is reached by its position", () => {
  for (const index of [0, 1, 999_999, 4_999_999]) {
    const top = topToShow({ top: 0, index, height: LARGE.height, rowHeight: LARGE.rowHeight });
    const { first, end } = rowsAt({ ...LARGE, top });
    assert.ok(first <= index && index < end, `row ${index}`);
    assert.ok(end - first < 60);
  }
});

test("pieces cover the rows, aligned, also for an empty list", () => {
  assert.deepEqual(piecesOf({ first: 35, end: 85, size: 40, total: 1000 }), [0, 40, 80]);
  assert.deepEqual(piecesOf({ first: 990, end: 1008, size: 40, total: 1000 }), [960]);
  assert.deepEqual(piecesOf({ first: 0, end: 8, size: 40, total: 0 }), [0]);
});

test("a held order keeps rows in place and adds new ones at the end", () => {
  assert.deepEqual(heldOrder(["c", "a", "d", "b"], ["a", "b", "x", "c"]), ["a", "b", "c", "d"]);
  assert.deepEqual(heldOrder(["b", "a"], []), ["b", "a"]);
});
