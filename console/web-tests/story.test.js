import assert from "node:assert/strict";
import { test } from "node:test";
import { endOf, episodesOf, limitOf } from "../web/process/story-model.js";
import { columnsOf, spanOf } from "../web/process/ring-model.js";

const failed = (seq, path) => ({ seq, at: `t${seq}`, kind: "failed", path, text: "", failure: { reason: "no" } });
const decided = (seq, path, decision) => ({ seq, at: `t${seq}`, kind: "decided", path, text: "", decision });
const event = (seq, kind, path) => ({ seq, at: `t${seq}`, kind, path, text: "" });

test("a failure, its decision and its restart are one episode", () => {
  const [second, first, start] = episodesOf([
    event(7, "gave_up", "/user/s"), decided(6, "/user/s/a", { directive: "stop", supervisor: "/user/s", restarts: 4, limit: 3 }), failed(5, "/user/s/a"),
    event(4, "restarted", "/user/s/a"), decided(3, "/user/s/a", { directive: "restart", supervisor: "/user/s", restarts: 3, limit: 3 }), failed(2, "/user/s/a"),
    event(1, "started", "/user/s/a"),
  ]);
  assert.deepEqual([first.seq, first.decisions.length, first.outcomes.map(({ kind }) => kind)], [2, 1, ["restarted"]]);
  assert.equal(endOf(first), "restarted");
  assert.deepEqual(second.outcomes.map(({ kind }) => kind), ["gave_up"]);
  assert.equal(endOf(second), "gave_up");
  assert.equal(start.failure, null);
});

test("failures of two members do not mix", () => {
  const [b, a] = episodesOf([event(6, "restarted", "/b"), event(5, "restarted", "/a"), decided(4, "/b", {}), decided(3, "/a", {}), failed(2, "/b"), failed(1, "/a")]);
  for (const [episode, path] of [[a, "/a"], [b, "/b"]]) {
    assert.deepEqual([...episode.decisions, ...episode.outcomes].map((entry) => entry.path), [path, path]);
  }
});

test("an episode whose end is not known is open", () => {
  assert.equal(endOf(episodesOf([failed(1, "/a")])[0]), "open");
});

test("a limit is exceeded above its number", () => {
  assert.deepEqual(limitOf({ restarts: 3, limit: 3 }), { used: 3, limit: 3, isExceeded: false });
  assert.equal(limitOf({ restarts: 4, limit: 3 }).isExceeded, true);
  assert.equal(limitOf({ restarts: 1, limit: null }), null);
});

test("a pause in the points is a gap in the plot", () => {
  const point = (second) => ({ at: new Date(second * 1000).toISOString(), queued: second, accepted_per_s: 1, handled_per_s: 1, failed_per_s: 0 });
  const { at, queued } = columnsOf({ every_ms: 1000, points: [point(1), point(2), point(9), point(8)] });
  assert.deepEqual(at, [1, 2, 5.5, 9]);
  assert.deepEqual(queued, [1, 2, null, 9]);
});

test("a plot of one point, and one without points, has a span of time", () => {
  assert.deepEqual(spanOf(1_000, 1_000), [970, 1_000]);
  assert.deepEqual(spanOf(900, 1_000), [900, 1_000]);
  assert.deepEqual(spanOf(null, null), [0, 30]);
});
