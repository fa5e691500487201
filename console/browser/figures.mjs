// `cargo xtask console-figures [--short] [--clicks]`: how fast the console answers, and what it
// costs. `--clicks` is for a build that is not optimized: it leaves out the cost, and does not judge
// the timeline, of which such a build reads a page in half a second.
//
// - A tree of 100,000 busy members: how long a click takes until its answer is on the screen.
// - A run with a million records: how long its page takes to show something.
// - Messages for each second of processor time: with ten tabs, with nobody connected, and without
//   a console. Processor time leaves out the browser, which shares the machine. The three take
//   turns in one program.
//
// It prints one line of JSON, and fails if a figure is worse than promised.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { launch, open, openWindow, settled } from "./support/browser.mjs";
import { start } from "./support/site.mjs";

const isShort = process.argv.includes("--short");
const onlyClicks = process.argv.includes("--clicks");
const MEMBERS = isShort ? "20000" : "100000";
const RECORDS = isShort ? "20000" : "1000000";

const CLICK_MAX_MS = 100;
const PAINT_MAX_MS = 300;
const CLICKS = 20;
const TABS = 10;
const ROUTES = ["/tree?process=p0&open=/&open=/user&open=/user/wide", "/", "/runs?store=s0", "/member?process=p0&path=/user/shop/stock"];
const TURNS = isShort ? 3 : 7;
const TURN_MS = isShort ? 1_000 : 3_000;
/** What a console may cost with ten tabs, and with nobody connected beyond the noise. */
const TABS_MIN = 0.95;
const IDLE_MIN = 0.98;

const sorted = (list) => [...list].sort((one, other) => one - other);
const median = (list) => sorted(list)[Math.floor(list.length / 2)];
const worst = (list) => Math.max(...list);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Milliseconds, measured in the page, from the first press until `shows(argument)` is true. */
async function time(page, act, shows, argument) {
  const waiting = page.evaluate(([source, argument]) => new Promise((resolve) => {
    const shows = new Function("argument", `return (${source})(argument)`);
    let begun = null;
    addEventListener("pointerdown", () => (begun ??= performance.now()), { capture: true, once: true });
    const look = () => (begun !== null && shows(argument) ? resolve(performance.now() - begun) : requestAnimationFrame(look));
    look();
  }), [shows.toString(), argument]);
  await act();
  return waiting;
}

/** Clicks: a branch opens with the rows of its children, and closes. */
async function clicks(program, browser) {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/tree?process=p0");
  const toggle = page.locator("[role=row]", { hasText: "shop" }).locator("button, .toggle").first();
  await toggle.waitFor();
  const times = [];
  const isOpen = () => [...document.querySelectorAll("[role=row]")].some((row) => row.innerText.includes("prices"));
  for (let click = 0; click < CLICKS; click += 1) {
    const shown = await page.evaluate(isOpen);
    times.push(await time(page, () => toggle.click(), (shown) => [...document.querySelectorAll("[role=row]")].some((row) => row.innerText.includes("prices")) !== shown, shown));
    await pause(300);
  }
  await window.close();
  return times;
}

/** Pages of a run with many records, opened from the list of runs. */
async function paints(program, browser) {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/runs?store=s0&graph=count&id-prefix=long");
  const times = { overview: [], timeline: [] };
  for (let turn = 0; turn < 10; turn += 1) {
    const link = page.getByRole("link", { name: "long", exact: true }).first();
    await link.waitFor();
    times.overview.push(await time(page, () => link.click(), () => document.querySelector(".run-page") !== null));
    const timeline = page.getByRole("button", { name: "Timeline" });
    times.timeline.push(await time(page, () => timeline.click(), () => document.querySelectorAll(".timeline .fold").length > 0));
    await page.goBack();
    await page.goBack();
    await settled(page);
    await pause(300);
  }
  await window.close();
  return times;
}

/** Seconds of processor time that a program has used. */
function processorSeconds(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

const TICKS = Number(execFileSync("getconf", ["CLK_TCK"]));

/** Messages for each second of processor time, during one turn. */
async function throughput(program) {
  const handled = async () => (await program.say("")).handled;
  const [messages, seconds] = [await handled(), processorSeconds(program.pid)];
  await pause(TURN_MS);
  return (await handled() - messages) / (processorSeconds(program.pid) - seconds);
}

/**
 * One program runs without a console, with one that nobody is connected to, and with ten tabs, again
 * and again. Two programs could not be compared: the same work takes up to 7 % longer where its
 * members happen to lie badly in memory. Without tabs the browser shows another program, which does
 * nothing: so it takes as much of the machine in all three cases.
 */
async function costs(browser) {
  const program = await start(...options, "--records", "10");
  const other = await start("--wide", "1000", "--records", "10");
  const ratios = { idle: [], tabs: [] };
  const withTabs = async (url, measure) => {
    const window = await openWindow(browser);
    for (let tab = 0; tab < TABS; tab += 1) await open(window, url, ROUTES[tab % ROUTES.length]);
    await pause(1_000);
    const result = await measure();
    await window.close();
    await pause(500);
    return result;
  };
  for (let turn = 0; turn < TURNS; turn += 1) {
    const { url, without } = await withTabs(other.url, async () => {
      await program.say("stop");
      const without = await throughput(program);
      const { url } = await program.say("start");
      await pause(500);
      ratios.idle.push((await throughput(program)) / without);
      return { url, without };
    });
    ratios.tabs.push((await withTabs(url, () => throughput(program))) / without);
  }
  await other.stop();
  await program.stop();
  return ratios;
}

const round = (number) => Math.round(number * 1000) / 1000;

const options = ["--wide", MEMBERS, "--busy"];
const program = await start(...options, "--records", RECORDS);
const browser = await launch();
let figures;
try {
  const click = await clicks(program, browser);
  const { overview, timeline } = await paints(program, browser);
  await program.stop();
  const cost = onlyClicks ? null : await costs(browser);
  figures = {
    members: Number(MEMBERS), records: Number(RECORDS),
    click_ms: { median: round(median(click)), worst: round(worst(click)) },
    overview_ms: { median: round(median(overview)), worst: round(worst(overview)) },
    timeline_ms: { median: round(median(timeline)), worst: round(worst(timeline)) },
    throughput: cost && { nobody_connected: round(median(cost.idle)), ten_tabs: round(median(cost.tabs)), all_idle: cost.idle.map(round), all_tabs: cost.tabs.map(round) },
  };
} finally {
  await browser.close();
  await program.stop();
}
console.log(JSON.stringify(figures));
const faults = [
  [figures.click_ms.median <= CLICK_MAX_MS, `a click takes ${figures.click_ms.median} ms`],
  [figures.overview_ms.median <= PAINT_MAX_MS, `the page of a run takes ${figures.overview_ms.median} ms`],
  [onlyClicks || figures.timeline_ms.median <= PAINT_MAX_MS, `a timeline takes ${figures.timeline_ms.median} ms`],
  [!figures.throughput || figures.throughput.nobody_connected >= IDLE_MIN, `with nobody connected the throughput is ${figures.throughput?.nobody_connected}`],
  [!figures.throughput || figures.throughput.ten_tabs >= TABS_MIN, `with ten tabs the throughput is ${figures.throughput?.ten_tabs}`],
].filter(([isWell]) => !isWell).map(([, text]) => text);
if (faults.length > 0) throw new Error(faults.join("; "));
