// No secret of a program leaves the console: by no route, stream, file or page.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Leaks } from "./support/secrets.mjs";
import { Api, eventually, site, stores } from "./support/site.mjs";
import { readLines } from "./support/stream.mjs";

let program;
let api;

before(async () => {
  program = await site();
  api = new Api(program.url);
});
after(async () => {
  await program?.stop();
});

const MEMBERS = ["/", "/user", "/user/shop", "/user/shop/stock", "/user/shop/prices", "/user/shop/mail", "/user/stuck", "/user/till", "/user/pool"];

/** The runs whose values are asked for one by one. */
const WITH_POINTERS = ["failed-00", "waits-0"];

/** The runs of a store: all but the many that ended. */
async function runsOf(store) {
  const { runs } = await api.view({ view: "runs", store, limit: 200 });
  const { runs: timers } = await api.view({ view: "runs", store, filters: { graph: "timer" }, limit: 10 });
  return [...new Set([...runs, ...timers].map(({ id }) => id))].filter((id) => !/^ended-|^failed-(?!0[01])|^waits-[^0]/.test(id));
}

/** The pointers of every value inside of a JSON text. */
function pointers(json, at = "") {
  const value = typeof json === "string" ? JSON.parse(json) : json.value;
  if (value === null || typeof value !== "object") return [at];
  const steps = Object.entries(value).map(([key, value]) => [key.replaceAll("~", "~0").replaceAll("/", "~1"), value]);
  return [at, ...steps.slice(0, 50).flatMap(([key, value]) => pointers({ value }, `${at}/${key}`))];
}

/** Every view, with every subject that has one. */
async function allViews() {
  const process = "p0";
  const list = [
    { view: "home" }, { view: "actions", limit: 200 }, { view: "tree", process, open: ["/", "/user", "/user/shop", "/user/till"], first: 0, count: 200 },
    { view: "not_well", process }, { view: "bulk", bulk: "none" },
    ...["queued", "rate", "restarts", "handling", "failed", "children"].map((by) => ({ view: "top", process, by })),
    ...["failures", "dead_letters"].map((kind) => ({ view: "failures", process, kind })),
    ...MEMBERS.flatMap((path) => [{ view: "member", process, path }, { view: "story", process, path }, { view: "ring", process, path }, { view: "test", process, path }]),
  ];
  for (const store of stores) {
    list.push({ view: "runs", store, limit: 200 }, { view: "waiting", store, limit: 100 }, { view: "workers", store }, { view: "deploy", store, graphs: program.exports });
    for (const group_by of ["status", "graph", "error"]) list.push({ view: "run_groups", store, group_by });
    for (const run of await runsOf(store)) list.push(...(await viewsOfRun(store, run)));
  }
  return list;
}

async function viewsOfRun(store, run) {
  const at = { store, run };
  const list = ["run", "timeline", "graph", "value"].map((view) => ({ view, ...at }));
  const { records = [] } = await api.view({ view: "timeline", ...at, limit: 20 }).catch(() => ({}));
  const numbers = records.map(({ record }) => record).filter(Boolean);
  const newest = numbers[0];
  if (newest) list.push({ view: "test", ...at, record: newest }, { view: "diff", ...at, from: numbers.at(-1), to: newest });
  if (newest && run !== "forked") list.push({ view: "diff", ...at, from: numbers.at(-1), to: 1, other_run: "forked" });
  const { show } = await api.view({ view: "run", ...at }).catch(() => ({}));
  for (const { key } of (show?.tokens ?? []).flatMap(({ waits }) => waits ?? [])) if (key) list.push({ view: "value", ...at, question: key });
  const level = await api.view({ view: "value", ...at }).catch(() => ({}));
  if (level.text && WITH_POINTERS.includes(run)) list.push(...pointers(level.text).map((pointer) => ({ view: "value", ...at, pointer })));
  return list;
}

/** The plans of actions with a text for each. */
const ACTIONS = [
  ...["stop", "restart", "suspend", "resume"].map((kind) => ({ kind, process: "p0", path: "/user/shop/stock" })),
  { kind: "log_level", process: "p0", level: "pleach=debug" },
  ...["pause", "continue", "retry", "unstick", "delete"].map((kind) => ({ kind, store: "s0", run: "failed-01" })),
  { kind: "cancel", store: "s0", run: "waits-0", cancel_reason: "password=SECRET" },
  { kind: "signal", store: "s0", run: "signal", name: "more", value: '{"token":"SECRET"}' },
  { kind: "answer", store: "s0", run: "waits-0", key: "approve", value: '{"approved":true,"token":"SECRET"}' },
  { kind: "rewind", store: "s0", run: "failed-01", record: 1 },
  { kind: "fork", store: "s0", run: "failed-01", record: 1, new: "forked-by-a-test", state: null },
  { kind: "fork", store: "s0", run: "failed-01", record: 1, new: "forked-by-a-test", state: '{"login":{"args":["--password","SECRET"]}}' },
];

const q = (view) => `q=${encodeURIComponent(JSON.stringify(view))}`;

test("k7_no_answer_of_any_route_stream_or_file_has_a_secret", async () => {
  const leaks = new Leaks(program.secrets);
  const list = await allViews();
  const known = /expected one of (.*) at line/.exec(await (await api.send(`/api/view?${q({ view: "unknown" })}`)).text())[1].match(/\w+/g);
  assert.deepEqual(known.filter((name) => !list.some(({ view }) => view === name)), [], "views that this test does not ask for");
  const hasValue = new Set();
  const take = async (where, answer) => {
    const text = await answer.text();
    leaks.look(where, text);
    leaks.look(`the head of ${where}`, JSON.stringify([...answer.headers]));
    return answer.ok;
  };
  const ask = async (view) => {
    const where = JSON.stringify(view);
    if (await take(where, await api.send(`/api/view?${q(view)}`))) hasValue.add(view.view);
    await take(`${where} as a file`, await api.send(`/api/download?${q(view)}&as=json`));
    if (["run", "member"].includes(view.view)) await take(`the incident ${where}`, await api.send(`/api/download?${q(view)}`));
  };
  for (let at = 0; at < list.length; at += 4) await Promise.all(list.slice(at, at + 4).map(ask));
  assert.deepEqual(known.filter((name) => !hasValue.has(name) && name !== "bulk"), [], "views that never had a value");
  await take("console", await api.send("/api/console"));
  const post = (path, body) => api.send(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  for (const action of ACTIONS) {
    const text = JSON.stringify(action).replaceAll("SECRET", program.secrets[1]);
    await take(`the plan ${text}`, await post("/api/act", { action: JSON.parse(text), is_plan: true, reason: "", plan: null }));
  }
  for (const kind of ["retry", "cancel", "delete"]) {
    await take(`all ${kind}`, await post("/api/bulk", { action: { kind, store: "s0" }, filters: { status: ["failed"] }, is_plan: true }));
  }
  assert.deepEqual(leaks.found.slice(0, 10), [], `${leaks.found.length} secrets`);
  assert.ok(leaks.texts > 500, `only ${leaks.texts} texts were examined`);
});

test("k7_no_line_of_a_stream_has_a_secret", async () => {
  const leaks = new Leaks(program.secrets);
  const all = (await allViews()).filter(({ view, pointer }) => view !== "test" && !pointer);
  for (let at = 0; at < all.length; at += 32) {
    const watches = Object.fromEntries(all.slice(at, at + 32).map((view, number) => [`w${number}`, view]));
    const answered = new Set();
    const abort = new AbortController();
    const answer = await api.send("/api/stream", { signal: abort.signal });
    const reading = readLines(answer, (line) => {
      leaks.look(JSON.stringify(watches[line.key] ?? "stream"), JSON.stringify(line));
      if (line.stream) void api.post("/api/watch", { stream: line.stream, watches });
      if (line.key) answered.add(line.key);
    }).catch(() => {});
    await eventually(() => answered.size === Object.keys(watches).length, "every view is sent", 60);
    abort.abort();
    await reading;
  }
  assert.deepEqual(leaks.found.slice(0, 10), [], `${leaks.found.length} secrets`);
});
