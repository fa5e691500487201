// The stream of the browser: shared by its tabs, quiet when hidden, and right again after a pause.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { launch, open, openWindow } from "./support/browser.mjs";
import { Proxy } from "./support/proxy.mjs";
import { eventually, site } from "./support/site.mjs";

const TREE = "/tree?process=p0";
const FAILING = "/member?process=p0&path=/user/shop/stock";

let browser;
let program;
let proxy;

// A test that fails must not leave its streams to the next one.
afterEach(async () => {
  proxy.mend();
  for (const window of browser.contexts()) await window.close();
});

before(async () => {
  program = await site();
  proxy = await Proxy.to(program.url);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await proxy?.close();
  await program?.stop();
});

/** The state of the connection, as the page says it. */
const connection = (page) => page.evaluate(() => document.querySelector(".connection")?.innerText ?? "");

test("k6_ten_tabs_share_one_stream_and_the_seventh_works", async () => {
  const window = await openWindow(browser);
  const tabs = [];
  for (let number = 0; number < 10; number += 1) {
    const page = await open(window, proxy.url, number % 2 ? TREE : "/");
    await eventually(async () => (await connection(page)).includes("Connected"), `tab ${number + 1} is connected`);
    tabs.push(page);
  }
  assert.equal(proxy.streams, 1);
  await window.close();
  await eventually(() => proxy.streams === 0, "the stream ends with the last tab");
});

/** Hides or shows a tab, as the browser would. */
async function setHidden(page, isHidden) {
  await page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
    Object.defineProperty(document, "hidden", { configurable: true, get: () => state === "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden ? "hidden" : "visible");
}

test("k6_a_hidden_tab_asks_for_nothing", async () => {
  const window = await openWindow(browser);
  const page = await open(window, proxy.url, TREE);
  await eventually(async () => (await connection(page)).includes("Connected"), "the tab is connected");
  await setHidden(page, true);
  await eventually(() => proxy.streams === 0, "the stream of a hidden tab ends", 30);
  const before = proxy.requests.length;
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  assert.deepEqual(proxy.requests.slice(before), []);
  await setHidden(page, false);
  await eventually(() => proxy.streams === 1, "the tab connects when it is shown");
  await window.close();
});

/** The failures in the story of the page, oldest first: the numbers in their reasons. */
const shelves = (page) => page.evaluate(() => [...document.querySelectorAll(".episode-reason")].flatMap((reason) => [...reason.innerText.matchAll(/shelf (\d+) is empty/g)].map(([, number]) => Number(number))).sort((one, other) => one - other));

/** Fails if a number is missing or there twice. */
function assertWhole(numbers) {
  const faults = numbers.filter((number, index) => index > 0 && number !== numbers[index - 1] + 1);
  assert.deepEqual(faults, [], `failures are missing or doubled among ${numbers}`);
}

/** Cuts the connection of a page, lets `meanwhile` pass, and checks that the story is whole again. */
async function assertWholeAfter(page, meanwhile, afterwards = async () => {}) {
  await eventually(async () => (await connection(page)).includes("Connected") && (await shelves(page)).length > 0, "the page shows failures");
  const newest = Math.max(...(await shelves(page)));
  proxy.cut();
  await eventually(async () => (await connection(page)).includes("Disconnected"), "the page says that it is not connected");
  await meanwhile();
  proxy.mend();
  await afterwards();
  await eventually(async () => (await connection(page)).includes("Connected") && Math.max(...(await shelves(page))) > newest + 1, "the page shows newer failures", 40);
  assertWhole(await shelves(page));
}

test("k6_after_a_pause_nothing_is_missing_or_doubled", async () => {
  const window = await openWindow(browser);
  const page = await open(window, proxy.url, FAILING);
  await assertWholeAfter(page, () => new Promise((resolve) => setTimeout(resolve, 4_000)));
  await window.close();
});

/** A window whose tabs have no shared worker, and a clock that can be moved. */
async function withoutWorkers() {
  const window = await openWindow(browser);
  await window.addInitScript(() => delete globalThis.SharedWorker);
  return window;
}

test("k6_after_a_minute_without_connection_nothing_is_missing_or_doubled", async () => {
  // In a shared worker the clock cannot be moved.
  const window = await withoutWorkers();
  await window.clock.install();
  const page = await open(window, proxy.url, FAILING);
  const minute = async () => {
    for (let step = 0; step < 6; step += 1) await page.clock.runFor(10_000);
    assert.match(await connection(page), /Disconnected/);
  };
  await assertWholeAfter(page, minute, () => page.clock.runFor(10_000));
  await window.close();
});

test("k6_tabs_without_shared_workers_share_one_stream_too", async () => {
  const window = await withoutWorkers();
  const first = await open(window, proxy.url, TREE);
  const second = await open(window, proxy.url, FAILING);
  for (const page of [first, second]) await eventually(async () => (await connection(page)).includes("Connected"), "the tab is connected");
  assert.equal(proxy.streams, 1);
  await first.close();
  const newest = Math.max(...(await shelves(second)));
  await eventually(async () => Math.max(...(await shelves(second))) > newest, "another tab reads the stream on");
  await window.close();
});

test("k6_a_failed_query_is_never_an_empty_list", async () => {
  const window = await openWindow(browser);
  const page = await open(window, proxy.url, "/");
  await page.route("**/api/view**", (route) => route.fulfill({ status: 500, contentType: "application/json", body: '{"error":{"code":"unreachable","text":"the store does not answer"}}' }));
  await page.route("**/api/stream", (route) => route.abort());
  await page.goto(`${proxy.origin}/runs?store=s0${new URL(proxy.url).hash}`);
  const text = await eventually(async () => {
    const text = await page.evaluate(() => document.querySelector("main")?.innerText ?? "");
    return text.length > 0 && !(await page.$("main .loading")) && text;
  }, "the page shows something");
  assert.ok(await page.$("main .failed"), text);
  assert.doesNotMatch(text, /no runs|nothing here|no results/i);
  await window.close();
});
