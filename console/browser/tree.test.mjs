// The tree: thousands of rows by window, and the keyboard alone.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, openWindow, settled } from "./support/browser.mjs";
import { focused, tabTo } from "./support/keyboard.mjs";
import { eventually, site } from "./support/site.mjs";

/** Rows of the page that exist at once: those on the screen, and some on both sides. */
const ROWS_MAX = 100;

let browser;
let program;

before(async () => {
  program = await site();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

/** The names of the rows on the screen, how many rows exist, and whether all on the screen are read. */
const rows = (page) => page.evaluate(() => {
  const frame = document.querySelector("[data-grid]");
  const all = [...frame.querySelectorAll("[data-index]")];
  const box = frame.getBoundingClientRect();
  const seen = all.filter((row) => row.getBoundingClientRect().top < box.bottom - 4 && row.getBoundingClientRect().bottom > box.top + 40);
  return { count: all.length, total: Number(frame.ariaRowCount ?? frame.getAttribute("aria-rowcount")) - 1, isRead: seen.length > 0 && seen.every((row) => !row.ariaBusy), names: seen.map((row) => row.innerText.split("\n")[0].trim()) };
});

test("k2_ten_thousand_rows_are_scrolled_and_only_a_window_of_them_exists", async () => {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/tree?process=p0&open=/&open=/user&open=/user/wide");
  await eventually(async () => (await rows(page)).total > 9_900, "the branch is open");
  for (const part of [0.25, 0.5, 0.75, 1, 0.1]) {
    await page.evaluate((part) => {
      const frame = document.querySelector("[data-grid]");
      frame.scrollTop = part * (frame.scrollHeight - frame.clientHeight);
    }, part);
    const now = await eventually(async () => {
      const now = await rows(page);
      assert.ok(now.count <= ROWS_MAX, `${now.count} rows exist`);
      return now.isRead && now;
    }, `the rows at ${part} are read`);
    // A member may end meanwhile, so the numbers need not be exact.
    const numbers = now.names.flatMap((name) => /child-(\d+)/.exec(name)?.slice(1) ?? []).map(Number);
    if (part < 1) {
      assert.ok(numbers.some((number) => Math.abs(number - part * 10_000) < 300), `at ${part}: ${now.names}`);
      assert.deepEqual(numbers, [...numbers].sort((one, other) => one - other), "the rows are in order");
    }
  }
  await window.close();
});

test("k9_the_tree_is_walked_with_the_keyboard_alone", async () => {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/tree?process=p0&open=/&open=/user");
  await eventually(async () => (await rows(page)).names.some((name) => name.includes("shop")), "the rows are there");
  await tabTo(page, /./, { inside: "[data-grid] [role=row]" });
  const row = async () => (await focused(page)).name;
  for (let step = 0; step < 40 && !/^shop/.test(await row()); step += 1) await page.keyboard.press("ArrowDown");
  assert.match(await row(), /^shop/);
  await page.keyboard.press("ArrowRight");
  await eventually(async () => (await rows(page)).names.some((name) => /^stock/.test(name)), "the branch opens");
  assert.match(await row(), /^shop/, "the focus stays where it is");
  await page.keyboard.press("ArrowRight");
  const child = await row();
  assert.doesNotMatch(child, /^shop/);
  await page.keyboard.press("ArrowLeft");
  assert.match(await row(), /^shop/, "the way to the parent");
  await page.keyboard.press("ArrowLeft");
  await eventually(async () => !(await rows(page)).names.some((name) => /^stock/.test(name)), "the branch closes");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/member\?.*path=\/user\/shop$/);
  await page.goBack();
  await eventually(async () => (await page.locator("[data-grid] [data-index][tabindex='0']").count()) === 1, "the list is one stop for Tab");
  await window.close();
});

test("k8_a_page_that_arrives_late_does_not_replace_the_one_that_is_wanted", async () => {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/tree?process=p0&open=/&open=/user");
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route("**/process/member.js*", async (route) => {
    await held;
    await route.continue();
  });
  const asked = page.waitForRequest(/process\/member\.js/);
  await page.evaluate(() => history.pushState(null, "", "/member?process=p0&path=/user/shop") ?? dispatchEvent(new PopStateEvent("popstate")));
  const module = (await asked).url();
  await page.goBack();
  await page.locator("[data-grid] [role=row]").first().waitFor();
  release();
  await page.evaluate((module) => import(module), module);
  await settled(page);
  assert.ok(await page.locator("[data-grid] [role=row]").first().isVisible(), "the tree is still there");
  await window.close();
});
