import assert from "node:assert/strict";
import { test } from "node:test";
import { branchText, byBranch, byNode, firstFailure, fold, foldText, recordText } from "../web/runs/timeline-model.js";

const record = (number, kind, node, more = {}) => ({ record: number, kind, node, branch: [], epoch: 1, failure: null, next: null, at: `t${number}`, ...more });

const ORDER = [
  record(7, "end", ""),
  record(6, "step", "ship"),
  record(5, "attempt", "ship", { failure: { reason: "no truck", attempt: 1 } }),
  record(4, "wait", "approve"),
  record(3, "step", "pay"),
  record(2, "effect", "pay"),
  record(1, "start", ""),
];

test("records of one visit are one fold", () => {
  const folds = fold(ORDER);
  assert.deepEqual(folds.map(({ node, from, to }) => [node, from, to]), [["", 7, 7], ["ship", 5, 6], ["approve", 4, 4], ["pay", 2, 3], ["", 1, 1]]);
  assert.equal(folds[1].failures, 1);
  assert.equal(foldText(folds[1]), "completed, attempt failed");
});

test("a loop that visits one node twice is two folds", () => {
  const folds = fold([record(4, "step", "turn"), record(3, "effect", "turn"), record(2, "step", "turn"), record(1, "effect", "turn")]);
  assert.deepEqual(folds.map(({ from, to }) => [from, to]), [[3, 4], [1, 2]]);
});

test("a fan-out of a thousand branches is one fold", () => {
  const inside = [];
  for (let at = 3000; at > 0; at -= 1) {
    inside.push(record(at + 2, at === 1500 ? "attempt" : "step", at % 2 ? "crop" : "scale", { branch: [at % 1000], failure: at === 1500 ? { reason: "x" } : null }));
  }
  const folds = fold([record(3003, "join", "collect"), ...inside, record(2, "step", "split"), record(1, "start", "")]);
  assert.equal(folds.length, 4);
  assert.deepEqual([folds[1].branches, folds[1].failures, folds[1].from, folds[1].to], [1000, 1, 3, 3002]);
  const branches = byBranch(folds[1].records);
  assert.equal(branches.length, 1000);
  assert.deepEqual([branches[0].branch, branches[1].branch, branches[999].branch], [[500], [0], [999]]);
  assert.deepEqual(byNode(folds[1].records), [{ node: "crop", count: 1500 }, { node: "scale", count: 1500 }]);
});

test("branches and undos have words", () => {
  assert.equal(branchText([]), "");
  assert.equal(branchText([3, 1]), "branch 3 › 1");
  assert.equal(branchText([4294967295]), "undo");
  assert.equal(recordText(record(3, "step", "pay", { next: { kind: "join", node: "j" } })), "then join j");
});

test("the first failure is searched in bounded steps", async () => {
  const pages = [];
  const page = async (from) => {
    pages.push(from);
    const records = Array.from({ length: 500 }, (_, at) => record(from + at, from + at === 1207 ? "attempt" : "step", "n"));
    return { records, next: from + 500 };
  };
  assert.deepEqual(await firstFailure(page, 1, 20), { record: 1207, searched: 1207, next: null });
  assert.deepEqual(pages, [1, 501, 1001]);
  assert.deepEqual(await firstFailure(page, 2001, 2), { record: null, searched: 1000, next: 3001 });
  const end = async () => ({ records: [record(1, "start", "")], next: null });
  assert.deepEqual(await firstFailure(end, 1, 2), { record: null, searched: 1, next: null });
});

test("a damaged record stands at its place", () => {
  const damaged = { record: 2, kind: "damaged", damage: "its checksum differs" };
  const folds = fold([record(3, "step", "pay"), damaged, record(1, "start", "")]);
  assert.deepEqual(folds.map(({ from, failures }) => [from, failures]), [[3, 0], [2, 1], [1, 0]]);
  assert.equal(recordText(damaged), "its checksum differs");
});
