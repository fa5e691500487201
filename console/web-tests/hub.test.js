import assert from "node:assert/strict";
import { test } from "node:test";
import { Hub, lineSplitter, textOf } from "../web/hub.js";

/** A console and a clock that the test moves. */
class Outside {
  time = 1_000_000;
  timers = [];
  streams = [];
  posts = [];
  refused = new Set();
  now = () => this.time;

  after = (ms, run) => {
    const timer = { at: this.time + ms, run };
    this.timers.push(timer);
    return () => (this.timers = this.timers.filter((other) => other !== timer));
  };

  fetch = async (path, { body, signal }) => {
    if (path === "/api/stream") {
      if (this.answer) return this.answer;
      const stream = new Stream(signal);
      this.streams.push(stream);
      return { ok: true, status: 200, body: stream };
    }
    if (path === "/api/watch") {
      const { watches } = JSON.parse(body);
      const isRefused = Object.values(watches).some((query) => this.refused.has(textOf(query)));
      if (!isRefused) this.posts.push(watches);
      return { ok: !isRefused, status: isRefused ? 400 : 200 };
    }
    const query = decodeURIComponent(path.split("q=")[1]);
    const error = { code: "bad_request", text: "unknown" };
    return this.refused.has(query) ? { ok: false, status: 400, json: async () => ({ error }) } : { ok: true, status: 200 };
  };

  /** Lets time pass, and everything that it starts. */
  async pass(ms) {
    this.time += ms;
    const due = this.timers.filter(({ at }) => at <= this.time);
    this.timers = this.timers.filter(({ at }) => at > this.time);
    for (const { run } of due) run();
    await settle();
  }
}

/** The body of a stream. */
class Stream {
  constructor(signal) {
    this.lines = [];
    this.wake = () => {};
    signal.addEventListener("abort", () => this.end());
  }

  getReader() {
    const encoder = new TextEncoder();
    return { read: async () => {
      while (this.lines.length === 0 && !this.isOver) await new Promise((wake) => (this.wake = wake));
      return this.lines.length > 0 ? { value: encoder.encode(this.lines.shift()), done: false } : { done: true };
    } };
  }

  async send(...values) {
    this.lines.push(...values.map((value) => `${JSON.stringify(value)}\n`));
    this.wake();
    await settle();
  }

  end() {
    this.isOver = true;
    this.wake();
  }
}

const settle = async () => {
  for (let turn = 0; turn < 30; turn += 1) await null;
  await new Promise((resolve) => setImmediate(resolve));
};

const HOME = textOf({ view: "home" });
const TREE = textOf({ view: "tree", process: "p0" });

async function connected() {
  const outside = new Outside();
  const hub = new Hub(outside);
  const heard = [];
  hub.join("tab", (message) => heard.push(message));
  hub.watch("tab", [HOME]);
  await outside.streams[0].send({ stream: "s1", protocol: 1 });
  const key = () => Object.keys(outside.posts.at(-1))[0];
  const values = () => heard.filter(({ type }) => type === "value");
  return { outside, hub, heard, key, values, stream: () => outside.streams.at(-1) };
}

test("equal queries have equal texts", () => {
  assert.equal(textOf({ b: 1, a: { d: undefined, c: [2] } }), textOf({ a: { c: [2] }, b: 1 }));
});

test("lines may be split anywhere, also within a character", () => {
  const lines = [];
  const feed = lineSplitter((line) => lines.push(line));
  const bytes = new TextEncoder().encode('{"ü":1}\n{"b":2}\n{"rest"');
  for (const byte of bytes) feed(Uint8Array.of(byte));
  assert.deepEqual(lines, ['{"ü":1}', '{"b":2}']);
});

test("two tabs share one stream and one watch, and a new tab gets the present value at once", async () => {
  const { outside, hub, key, stream, values } = await connected();
  await stream().send({ seq: 1, at: "t", key: key(), value: { problems: [] } });
  assert.deepEqual(values().map(({ value }) => value), [{ problems: [] }]);
  const second = [];
  hub.join("other", (message) => second.push(message));
  hub.watch("other", [HOME]);
  await settle();
  assert.equal(outside.streams.length, 1);
  assert.equal(Object.keys(outside.posts.at(-1)).length, 1);
  assert.deepEqual(second.find(({ type }) => type === "value").value, { problems: [] });
});

test("a missing frame marks values as old, and asks for all of them again", async () => {
  const { outside, heard, key, stream, values } = await connected();
  await stream().send({ seq: 1, at: "t", key: key(), value: 1 });
  const before = key();
  await stream().send({ seq: 4, at: "t", alive: true });
  assert.ok(heard.some(({ type }) => type === "old"));
  assert.equal(heard.findLast(({ type }) => type === "state").gaps, 1);
  assert.notEqual(key(), before);
  await stream().send({ seq: 5, at: "t", key: key(), value: 2 });
  assert.deepEqual(values().map(({ value, isOld }) => [value, isOld]), [[1, false], [2, false]]);
  assert.equal(outside.streams.length, 1);
});

test("a lost stream is opened again, with everything that is watched", async () => {
  const { outside, hub, heard, key, stream } = await connected();
  await stream().send({ seq: 1, at: "t", key: key(), value: 1 });
  hub.watch("tab", [HOME, TREE]);
  await settle();
  stream().end();
  await settle();
  const lost = heard.findLast(({ type }) => type === "state");
  assert.deepEqual([lost.state, lost.since], ["disconnected", outside.time]);
  assert.ok(heard.some(({ type, text }) => type === "old" && text === HOME));
  await outside.pass(500);
  await stream().send({ stream: "s2", protocol: 1 });
  assert.equal(heard.findLast(({ type }) => type === "state").state, "connected");
  assert.equal(Object.keys(outside.posts.at(-1)).length, 2);
});

test("a console that takes no watches is asked again less and less often", async () => {
  const { outside, hub, stream } = await connected();
  const { fetch } = outside;
  outside.fetch = async (path, options) => (path === "/api/watch" ? { ok: false, status: 500 } : fetch(path, options));
  hub.watch("tab", [HOME, TREE]);
  await settle();
  for (const wait of [500, 1000, 2000, 4000]) {
    const before = outside.streams.length;
    await outside.pass(wait - 1);
    assert.equal(outside.streams.length, before, `it connects before ${wait} ms`);
    await outside.pass(1);
    assert.equal(outside.streams.length, before + 1, `it does not connect after ${wait} ms`);
    await stream().send({ stream: `s${wait}`, protocol: 1 });
  }
  outside.fetch = fetch;
  await outside.pass(8000);
  await stream().send({ stream: "well", protocol: 1 });
  stream().end();
  await settle();
  const before = outside.streams.length;
  await outside.pass(500);
  assert.equal(outside.streams.length, before + 1, "a watch that was taken does not shorten the wait");
});

test("silence of 25 s is a lost stream", async () => {
  const { outside, heard, stream } = await connected();
  await outside.pass(24_000);
  await stream().send({ seq: 1, at: "t", alive: true });
  await outside.pass(2_000);
  assert.equal(heard.findLast(({ type }) => type === "state").state, "connected");
  await outside.pass(23_500);
  assert.equal(heard.findLast(({ type }) => type === "state").state, "disconnected");
});

test("hidden tabs watch nothing, hear nothing, and the stream is closed after a while", async () => {
  const { outside, hub, heard, key, stream } = await connected();
  await stream().send({ seq: 1, at: "t", key: key(), value: 1 });
  hub.wake("tab", false);
  await settle();
  assert.deepEqual(outside.posts.at(-1), {});
  const before = heard.length;
  await stream().send({ seq: 2, at: "t", alive: true });
  assert.equal(heard.length, before);
  await outside.pass(10_000);
  assert.equal(stream().isOver, true);
  hub.wake("tab", true);
  await settle();
  assert.equal(outside.streams.length, 2);
});

test("a view that cannot be watched fails alone", async () => {
  const { outside, hub, heard, key, stream } = await connected();
  outside.refused.add(TREE);
  await stream().send({ seq: 1, at: "t", key: key(), value: 1 });
  hub.watch("tab", [HOME, TREE]);
  await settle();
  assert.equal(heard.findLast(({ text }) => text === TREE).error.code, "bad_request");
  assert.equal(Object.keys(outside.posts.at(-1)).length, 1);
  assert.equal(outside.streams.length, 1);
});

test("more than 32 views of one browser fail, and say so", async () => {
  const { outside, hub, heard } = await connected();
  hub.watch("tab", Array.from({ length: 33 }, (_, index) => textOf({ view: "run", run: `r${index}` })));
  await settle();
  assert.equal(Object.keys(outside.posts.at(-1)).length, 32);
  assert.equal(heard.filter(({ error }) => error?.code === "too_many_watches").length, 1);
});

test("a refused token is final until the tab comes with another one", async () => {
  const outside = new Outside();
  outside.answer = { ok: false, status: 401, json: async () => ({ error: { code: "unauthorized", text: "no" } }) };
  const hub = new Hub(outside);
  const heard = [];
  hub.join("tab", (message) => heard.push(message));
  hub.watch("tab", [HOME]);
  await settle();
  assert.equal(heard.findLast(({ type }) => type === "state").state, "refused");
  assert.equal(outside.timers.length, 0);
});
