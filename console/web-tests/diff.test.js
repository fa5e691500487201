import assert from "node:assert/strict";
import { test } from "node:test";
import { changesText, foldLines } from "../web/runs/diff-model.js";

const same = (count) => Array.from({ length: count }, (_, at) => ({ kind: "same", text: `line ${at}` }));
const change = [{ kind: "removed", text: "a" }, { kind: "added", text: "b" }];

test("long parts that are the same are folded around their context", () => {
  const parts = foldLines([...same(30), ...change, ...same(5), ...change, ...same(11)]);
  assert.deepEqual(parts.map(({ kind, lines }) => [kind, lines.length]), [
    ["folded", 27], ["same", 3], ["changed", 2], ["same", 5], ["changed", 2], ["same", 3], ["folded", 8],
  ]);
  assert.equal(parts.flatMap((part) => part.lines).length, 50);
});

test("lines keep the numbers of both texts", () => {
  const [{ lines }] = foldLines(change);
  assert.deepEqual(lines.map(({ before, after }) => [before, after]), [[1, null], [null, 1]]);
  const last = foldLines([...same(2), ...change, ...same(1)]).at(-1).lines[0];
  assert.deepEqual([last.before, last.after], [4, 4]);
});

test("changes are counted in words", () => {
  assert.equal(changesText(same(3)), "no difference");
  assert.equal(changesText([...change, ...same(2)]), "1 line added, 1 removed");
  assert.deepEqual(foldLines(same(20)).map(({ kind }) => kind), ["folded"]);
});
