import assert from "node:assert/strict";
import { test } from "node:test";
import { ago, axisTime, dateOf, duration, fileTime, fullTime, shortTime, zoneName } from "../web/time.js";

const AT = "2026-11-18T23:30:05.120Z";

test("text, axis and file agree, and name the zone", () => {
  assert.equal(fullTime(AT, "utc"), "2026-11-18 23:30:05.120 UTC");
  assert.equal(fullTime(AT, "Europe/Berlin"), "2026-11-19 00:30:05.120 UTC+1");
  assert.equal(axisTime(dateOf(AT), "Europe/Berlin"), "00:30:05");
  assert.equal(zoneName("Europe/Berlin", AT), "UTC+1");
  assert.equal(zoneName("Europe/Berlin", "2026-07-01T00:00:00Z"), "UTC+2");
  assert.equal(fileTime(AT), AT);
});

test("a list shows the day unless it is today's in the zone", () => {
  const today = new Date("2026-11-18T10:00:00Z");
  assert.equal(shortTime(AT, "utc", today), "23:30:05 UTC");
  assert.equal(shortTime(AT, "Europe/Berlin", today), "2026-11-19 00:30 UTC+1");
});

test("microseconds since 1970 are times too, and nonsense is none", () => {
  assert.equal(fullTime(Date.parse(AT) * 1000, "utc"), "2026-11-18 23:30:05.120 UTC");
  assert.equal(fullTime("yesterday", "utc"), "–");
  assert.equal(fullTime(null, "utc"), "–");
});

test("durations have at most two units and never round up", () => {
  const cases = [
    [0, "0 s"], [7, "7 µs"], [999, "999 µs"], [1500, "1.5 ms"], [59_999_999, "59 s"], [2_400_000, "2.4 s"], [5_000_000, "5 s"],
    [72e6, "1 min 12 s"], [3600e6, "1 h"], [90e6 * 60, "1 h 30 min"], [86400e6 * 3 + 3600e6 * 4, "3 d 4 h"], [null, "–"],
  ];
  for (const [us, text] of cases) assert.equal(duration(us), text);
});

test("relative times are as of the given time", () => {
  const now = Date.parse(AT);
  assert.equal(ago(new Date(now - 130_000), now), "2 min ago");
  assert.equal(ago(new Date(now + 5000), now), "in 5 s");
  assert.equal(ago(new Date(now - 400), now), "now");
  assert.equal(ago(new Date(now - 3 * 3600_000 - 60_000), now), "3 h 1 min ago");
});
