// Every view: no error, nothing that axe finds, right at three widths and in both themes.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible, assertClean, assertNoSideways, launch, open, openWindow, settled, shoot } from "./support/browser.mjs";
import { site } from "./support/site.mjs";
import { views } from "./support/views.mjs";

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

/** Calls `look` with each view in a page of its own, and reports all failures at once. */
async function eachView(options, look) {
  const window = await openWindow(browser, options);
  const failures = [];
  for (const { name, route } of views(program)) {
    const page = await open(window, program.url, route);
    try {
      await look(page, name, route);
    } catch (error) {
      failures.push(`${name}: ${error.message}`);
    }
    await page.close();
  }
  await window.close();
  assert.deepEqual(failures, []);
}

test("k10_each_view_is_answered_without_an_error", async () => {
  await eachView({}, async (page, name) => {
    const { mark, failed } = await page.evaluate((mark) => ({ mark: window[mark], failed: document.querySelector("main .failed")?.innerText }), program.mark);
    assert.equal(failed, undefined);
    assert.equal(mark, undefined, "script of a program ran");
    await assertClean(page, name);
  });
});

for (const colorScheme of ["light", "dark"]) {
  test(`k9_axe_finds_nothing_in_the_${colorScheme}_theme`, async () => {
    await eachView({ colorScheme }, assertAccessible);
  });
}

test("k9_no_view_scrolls_sideways_at_320_pixels", async () => {
  for (const colorScheme of ["light", "dark"]) {
    await eachView({ colorScheme, viewport: { width: 320, height: 800 } }, async (page, name) => {
      await shoot(page, `${name}-320-${colorScheme}`);
      await assertNoSideways(page, name);
    });
  }
});

test("k9_pictures_of_each_view_at_two_more_widths", async () => {
  for (const [width, height] of [[1280, 900], [2560, 1440]]) {
    for (const colorScheme of ["light", "dark"]) {
      await eachView({ colorScheme, viewport: { width, height } }, async (page, name) => {
        await shoot(page, `${name}-${width}-${colorScheme}`);
        await assertNoSideways(page, name);
      });
    }
  }
});

test("k9_forced_colours_keep_text_and_focus_visible", async () => {
  await eachView({ forcedColors: "active" }, async (page, name) => {
    await page.keyboard.press("Tab");
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, "none", "the focus cannot be seen");
    await assertAccessible(page, name);
  });
});

test("k9_nothing_moves_for_readers_who_asked_for_that", async () => {
  await eachView({ reducedMotion: "reduce" }, async (page) => {
    const moving = await page.evaluate(() => document.getAnimations().filter((animation) => animation.playState === "running" && animation.effect.getComputedTiming().duration > 1).map((animation) => animation.effect.target?.className));
    assert.deepEqual(moving, []);
  });
});

test("k8_the_url_of_each_view_reproduces_it", async () => {
  const window = await openWindow(browser);
  for (const { name, route } of views(program)) {
    const page = await open(window, program.url, route);
    const heading = () => page.evaluate(() => document.querySelector("main h1")?.innerText);
    const [first, here] = [await heading(), page.url()];
    assert.ok(first, `${name} has no heading`);
    await page.goto("about:blank");
    await page.goto(here);
    await settled(page);
    assert.equal(await heading(), first, name);
    assert.equal(page.url(), here, name);
    await page.close();
  }
  await window.close();
});
