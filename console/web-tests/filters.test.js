import assert from "node:assert/strict";
import { test } from "node:test";
import { fromText, fromUrl, narrows, NONE, toCommand, toRequest, toUrl } from "../web/runs/filters.js";
import { quoted, split } from "../web/runs/shell.js";

const ALL = { ...NONE, status: "compensation failed", graph: "order", tag: "customer=it's 42", "id-prefix": "-a b", since: "2h", before: "2026-11-17T09:30:00Z", "group-by": "error" };

test("filters survive the way through a URL", () => {
  for (const filters of [ALL, NONE, { ...NONE, failed: true, since: "1h" }]) {
    assert.deepEqual(fromUrl(new URLSearchParams(new URLSearchParams(toUrl(filters)).toString())), filters);
  }
});

test("filters survive the way through a command", () => {
  for (const filters of [ALL, { ...NONE, failed: true, since: "1h" }, { ...NONE, tag: "a=b=c" }]) {
    assert.deepEqual(fromText(toCommand(filters, "runs.db")), { filters });
  }
});

test("a command of the manual is understood", () => {
  const { filters } = fromText("pleach runs list orders.db --failed --since 1h --group-by error --json --limit=5");
  assert.deepEqual(filters, { ...NONE, failed: true, since: "1h", "group-by": "error" });
  assert.equal(toCommand(filters, "orders.db"), "pleach runs list orders.db --failed --since 1h --group-by error");
});

test("a plain text is the beginning of an id", () => {
  assert.deepEqual(fromText(" order-7 "), { filters: { ...NONE, "id-prefix": "order-7" } });
  assert.deepEqual(fromText("pleach runs list orders.db"), { filters: NONE });
});

test("what is not understood is said", () => {
  for (const [text, part] of [
    ["--colour red", "--colour"], ["--status lost", "lost"], ["--failed --status stuck", "exclude"],
    ["--since yesterday", "since"], ["--tag x", "KEY=VALUE"], ["--graph", "value"], ["--group-by node", "grouped"],
  ]) {
    assert.ok(fromText(text).problem?.includes(part), text);
  }
});

test("the request has the names of the interface", () => {
  assert.deepEqual(toRequest({ ...ALL, "group-by": "error" }), {
    status: ["compensation failed"], graph: "order", tag: "customer=it's 42", id_prefix: "-a b", since: "2h", before: "2026-11-17T09:30:00Z",
  });
  assert.equal(narrows({ ...NONE, "group-by": "error" }), false);
  assert.equal(narrows({ ...NONE, failed: true }), true);
});

test("words are quoted as the command quotes them", () => {
  for (const [text, expected] of [
    ["order-7", "order-7"], ["essay on actors", "'essay on actors'"], ["it's", "'it'\\''s'"], ["", "''"],
    ["a\u001b[31m'\u009b", "$'a\\x1b[31m\\'\\xc2\\x9b'"],
  ]) {
    assert.equal(quoted(text), expected);
    assert.deepEqual(split(`x ${expected} y`), ["x", text, "y"]);
  }
  assert.deepEqual(split(String.raw`a"b \"c"d e\ f`), ['ab "cd', "e f"]);
});
