// `cargo xtask console-soak [SECONDS]`: ten tabs and ten streams for some time.
//
// Half of the tabs change their page every few seconds. The memory of the program may not grow
// after the first third of the time.

import { readFileSync } from "node:fs";
import { launch, open, openWindow } from "./support/browser.mjs";
import { Api, site } from "./support/site.mjs";
import { readLines } from "./support/stream.mjs";
import { views } from "./support/views.mjs";

const TABS = 10;
const STREAMS = 10;

/** What may come and go: buffers of answers, pages of the store. */
const GROWTH_MAX = 1.1;
const GROWTH_KIB = 6 * 1024;

const seconds = Number(process.argv[2] ?? 600);
const program = await site();
const until = Date.now() + seconds * 1000;

/** The memory of the program in KiB. */
function memory() {
  return Number(readFileSync(`/proc/${program.pid}/status`, "utf8").match(/VmRSS:\s+(\d+)/)[1]);
}

/** A stream that changes its watches every second. */
async function watch(number) {
  const api = new Api(program.url);
  const abort = new AbortController();
  let frames = 0;
  let turn = number;
  const answer = await api.send("/api/stream", { signal: abort.signal });
  const timers = [];
  const reading = readLines(answer, (line) => {
    frames += 1;
    if (!line.stream) return;
    timers.push(setInterval(() => {
      turn += 1;
      const watches = {
        tree: { view: "tree", process: "p0", open: ["/user", "/user/wide"], first: (turn * 37) % 9_000, count: 60 },
        member: { view: "member", process: "p0", path: `/user/wide/child-${String(turn % 10_000).padStart(6, "0")}` },
        home: { view: "home" },
        runs: { view: "runs", store: "s0", limit: 20 },
      };
      void api.post("/api/watch", { stream: line.stream, watches }).catch(() => {});
    }, 1_000));
  }).catch(() => {});
  return { frames: () => frames, stop: async () => (timers.forEach(clearInterval), abort.abort(), reading) };
}

const browser = await launch();
const window = await openWindow(browser);
const all = views(program);
const tabs = await Promise.all(Array.from({ length: TABS }, (_, number) => open(window, program.url, all[number % all.length].route)));
const streams = await Promise.all(Array.from({ length: STREAMS }, (_, number) => watch(number)));
const samples = [];
for (let turn = 0; Date.now() < until; turn += 1) {
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  samples.push(memory());
  const tab = tabs[(turn % (TABS / 2)) * 2];
  const { route } = all[turn % all.length];
  await tab.evaluate((href) => {
    history.pushState(null, "", href);
    dispatchEvent(new PopStateEvent("popstate"));
  }, route);
}
const frames = streams.map((stream) => stream.frames());
await Promise.all(streams.map((stream) => stream.stop()));
await browser.close();
await program.stop();

const average = (list) => list.reduce((sum, sample) => sum + sample, 0) / list.length;
const third = Math.max(1, Math.floor(samples.length / 3));
const [begin, end] = [average(samples.slice(third, 2 * third)), average(samples.slice(-third))];
console.log(`${seconds} s, ${TABS} tabs, ${STREAMS} streams with ${Math.min(...frames)} to ${Math.max(...frames)} frames`);
console.log(`memory of the program: ${(begin / 1024).toFixed(1)} MiB in the second third, ${(end / 1024).toFixed(1)} MiB in the last; ratio ${(end / begin).toFixed(3)}`);
if (Math.min(...frames) < seconds / 2) throw new Error("a stream got too few frames");
if (end > begin * GROWTH_MAX + GROWTH_KIB) throw new Error("the memory of the program grew");
