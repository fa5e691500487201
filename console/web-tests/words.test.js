import assert from "node:assert/strict";
import { test } from "node:test";
import { actionsOf, fitOf, hasEnded, STATUS, statusLook } from "../web/runs/words.js";
import { STATUSES } from "../web/runs/filters.js";

test("every status has a shape of its own", () => {
  assert.deepEqual(Object.keys(STATUS).toSorted(), STATUSES.toSorted());
  assert.equal(new Set(STATUSES.map((status) => statusLook(status).icon)).size, STATUSES.length);
  assert.equal(statusLook("of a later version").icon, "info");
});

test("the action that helps comes first, and none that makes no sense", () => {
  const kinds = (run) => actionsOf(run).map(({ kind }) => kind);
  assert.deepEqual(kinds({ status: "failed" }), ["retry", "fork", "rewind", "delete"]);
  assert.deepEqual(kinds({ status: "stuck" })[0], "unstick");
  assert.deepEqual(kinds({ status: "waiting", is_paused: true }), ["continue", "fork", "rewind", "signal", "cancel"]);
  assert.ok(STATUSES.filter(hasEnded).every((status) => !kinds({ status }).includes("cancel")));
});

test("fits have words", () => {
  assert.equal(fitOf("missing_node").isServed, false);
  assert.equal(fitOf("migrated").isServed, true);
  assert.deepEqual(fitOf("of_a_later_version"), { isServed: false, text: "of a later version", isChange: false });
});
