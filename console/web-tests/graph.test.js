import assert from "node:assert/strict";
import { test } from "node:test";
import { centred, edgePath, marksOf, moved, notesOf, sentence, short, stateOf, tableOf, whole, zoomed } from "../web/runs/graph-model.js";

const LAYOUT = {
  width: 200, height: 300,
  nodes: [
    { id: "pay", label: "pay", x: 60, y: 60, width: 80, height: 36 },
    { id: "__start__", label: "", x: 89, y: 0, width: 22, height: 22 },
    { id: "__end__", label: "", x: 89, y: 278, width: 22, height: 22 },
  ],
  edges: [{ from: "__start__", to: "pay", kind: "plain", points: [[100, 22], [100, 60]] }, { from: "pay", to: "__end__", kind: "choice", points: [[100, 96], [150, 180], [100, 278]] }],
};

test("edges are curves that pass their points", () => {
  assert.equal(edgePath(LAYOUT.edges[1]), "M100 96C100 138 150 138 150 180C150 229 100 229 100 278");
  assert.equal(edgePath({ from: "a", to: "a", points: [[0, 0], [5, 0.04]] }), "M0 0L5 0");
  assert.equal(edgePath({ from: "a", to: "b", points: [] }), "");
});

test("the most important count decides the state, all are said", () => {
  const counts = { visited: 1200, current: 2, waiting: 1, failed: 3 };
  assert.equal(stateOf(counts), "failed");
  assert.deepEqual(notesOf(counts), ["3 failed", "waits", "2 here", "done 1.2k×"]);
  assert.equal(stateOf(marksOf({}, "pay")), "");
  assert.deepEqual(marksOf([{ node: "pay", visited: 2 }], "pay"), { visited: 2, current: 0, waiting: 0, failed: 0 });
  assert.deepEqual([short(999), short(1999), short(99_999), short(1_000_000)], ["999", "1.9k", "99k", "1M"]);
});

test("the table has the nodes from top to bottom", () => {
  const rows = tableOf(LAYOUT, { pay: { waiting: 1 } });
  assert.deepEqual(rows.map(({ name, state, leads }) => [name, state, leads.map((edge) => edge.to)]), [
    ["start", "", ["pay"]], ["pay", "waiting", ["__end__"]], ["end", "", []],
  ]);
  assert.equal(sentence(LAYOUT, { pay: { waiting: 1 } }), "A graph of 1 node; waits at pay");
});

test("the visible part keeps its point and its bounds", () => {
  const all = whole(LAYOUT);
  const point = { x: 60, y: 60 };
  const near = zoomed(all, LAYOUT, 2, point);
  const share = (part) => [(point.x - part.x) / part.width, (point.y - part.y) / part.height].map((number) => number.toFixed(6));
  assert.deepEqual(share(near), share(all));
  assert.ok(zoomed(near, LAYOUT, 1e9).width >= 100 && zoomed(near, LAYOUT, 1e-9).width <= all.width * 4);
  const far = moved(near, LAYOUT, 1e9, -1e9);
  assert.ok(far.x + far.width / 2 <= all.x + all.width && far.y + far.height / 2 >= all.y);
  const middle = centred(near, LAYOUT, "pay");
  assert.deepEqual([middle.x + middle.width / 2, middle.y + middle.height / 2], [100, 78]);
  assert.equal(centred(near, LAYOUT, "lost"), near);
});
