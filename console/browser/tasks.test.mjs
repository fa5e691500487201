// What an operator does, with the keyboard alone: find the failing actor, approve a run, fork a
// failed run with a corrected state.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, openWindow, settled } from "./support/browser.mjs";
import { focused, tabTo } from "./support/keyboard.mjs";
import { Api, eventually, site } from "./support/site.mjs";

let browser;
let program;
let api;

before(async () => {
  program = await site();
  api = new Api(program.url);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

const text = (page) => page.evaluate(() => document.querySelector("main").innerText);

/** What the store says about a run. */
const run = async (id) => (await api.view({ view: "run", store: "s0", run: id })).show;

test("k3_the_failing_actor_and_its_reason_are_found_from_home", async () => {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/");
  await eventually(async () => /gave up/i.test(await text(page)), "home says what gave up");
  await page.keyboard.press("j");
  for (let card = 0; card < 40 && !/gave up/i.test((await focused(page)).name); card += 1) await page.keyboard.press("j");
  assert.match((await focused(page)).name, /payments.*gave up/i);
  assert.match(await text(page), /the bank does not answer/);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/member\?/);
  await settled(page);
  await eventually(async () => /the bank does not answer/.test(await text(page)), "the page of the member says why");
  assert.match(await text(page), /3 (restarts )?(of|in) /i);
  await window.close();
});

test("k4_a_waiting_run_is_approved_with_the_keyboard", async () => {
  assert.equal((await run("waits-1")).status, "waiting");
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/");
  await page.keyboard.press("g");
  await page.keyboard.press("w");
  await page.waitForURL(/\/waiting/);
  await settled(page);
  const card = ".wait-card:has(a[href*='waits-1'])";
  await page.waitForSelector(card);
  await tabTo(page, /^(Yes|No)$/, { inside: card });
  if ((await focused(page)).name === "No") await page.keyboard.press("ArrowUp");
  else await page.keyboard.press("Space");
  await tabTo(page, /^Answer/, { inside: card });
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .will");
  await tabTo(page, /Reason/, { inside: "dialog" });
  await page.keyboard.type("the customer has paid");
  await tabTo(page, /Send the answer/, { inside: "dialog" });
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .result-text");
  await eventually(async () => (await run("waits-1")).status === "finished", "the run goes on and finishes");
  await page.keyboard.press("Escape");
  const { entries } = await api.view({ view: "actions" });
  const entry = entries.find(({ subject, kind }) => subject === "waits-1" && kind === "answer");
  assert.equal(entry.reason, "the customer has paid");
  await window.close();
});
