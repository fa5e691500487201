import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, count, countAtLeast, nameOf, parentOf, pathsTo, plural, rate, short, visible, visibleJson } from "../web/text.js";

test("control characters, direction marks and broken pairs become visible", () => {
  assert.equal(visible("a\u0007b\u001b[31m"), "a\\u{7}b\\u{1b}[31m");
  assert.equal(visible("x\u202ey\u200bz\ufeff"), "x\\u{202e}y\\u{200b}z\\u{feff}");
  assert.equal(visible("\ud800!"), "\\u{d800}!");
  assert.equal(visible("ok 😀 ü\n", { lines: true }), "ok 😀 ü\n");
  assert.equal(visible("a\nb"), "a\\u{a}b");
  assert.equal(visible(null), "");
});

test("a JSON text stays JSON", () => {
  const text = JSON.stringify({ a: "x\u202ey\u001b\ufeff", "\u200b": "\ud800" }, null, 2);
  assert.doesNotMatch(visibleJson(text), /[\u202e\ufeff\u200b]/);
  assert.deepEqual(JSON.parse(visibleJson(text)), JSON.parse(text));
});

test("numbers keep their digits where they are counted", () => {
  assert.equal(count(1234567), "1,234,567");
  assert.equal(countAtLeast(1000, true), "1,000+");
  assert.equal(short(1_234_567), "1.2M");
  assert.equal(short(9999), "9,999");
  assert.equal(rate(0), "0");
  assert.equal(rate(0.01), "< 0.1");
  assert.equal(rate(118.5), "119");
  assert.equal(rate(null), "–");
  assert.equal(bytes(12_600), "12.3 KiB");
  assert.equal(plural(1, "child", "children"), "1 child");
  assert.equal(plural(2, "child", "children"), "2 children");
});

test("paths are split at slashes", () => {
  assert.deepEqual(pathsTo("/user/a/b"), ["/", "/user", "/user/a", "/user/a/b"]);
  assert.deepEqual(pathsTo("/"), ["/"]);
  assert.equal(nameOf("/user/a"), "a");
  assert.equal(parentOf("/user"), "/");
  assert.equal(parentOf("/"), null);
});
