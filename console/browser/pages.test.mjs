// Every view: no error, nothing that axe finds, right at three widths and in both themes.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible, assertClean, assertNoSideways, launch, open, openWindow, settled, shoot, visit } from "./support/browser.mjs";
import { site } from "./support/site.mjs";
import { views } from "./support/views.mjs";

/** The widths of pictures: a phone, a laptop, a large screen. */
const SIZES = [[320, 800], [1280, 900], [3840, 2160]];

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

/** Calls `look` with each view, in one page, and reports all failures at once. */
async function eachView(options, look) {
  const window = await openWindow(browser, options);
  const failures = [];
  const page = await open(window, program.url);
  for (const { name, route } of views(program)) {
    try {
      await visit(page, route);
      await look(page, name, route);
    } catch (error) {
      failures.push(`${name}: ${error.message}`);
    }
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

  for (const [width, height] of SIZES) {
    test(`k9_no_view_scrolls_sideways_at_${width}_pixels_${colorScheme}_picture`, async () => {
      await eachView({ colorScheme, viewport: { width, height } }, async (page, name) => {
        await shoot(page, `${name}-${width}-${colorScheme}`);
        await assertNoSideways(page, name);
      });
    });
  }
}

test("k9_at_400_percent_a_view_reflows_and_leaves_room_to_read", async () => {
  // 1280 by 1024 pixels at 400 percent.
  await eachView({ viewport: { width: 320, height: 256 }, deviceScaleFactor: 4 }, async (page, name) => {
    await assertNoSideways(page, name);
    const fixed = await page.evaluate(() => [...document.querySelectorAll("body *")].filter((element) => {
      const { position, visibility } = getComputedStyle(element);
      const box = element.getBoundingClientRect();
      return ["fixed", "sticky"].includes(position) && visibility === "visible" && box.height > innerHeight / 2 && box.width > innerWidth / 2;
    }).map((element) => `${element.tagName}.${element.className}`));
    assert.deepEqual(fixed, [], "something stays over more than half of the page");
  });
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

test("k9_every_time_names_its_zone", async () => {
  await eachView({ timezoneId: "Asia/Kolkata" }, async (page) => {
    const bare = await page.evaluate(() => [...document.querySelectorAll("main time")].map((time) => time.title).filter((title) => !/UTC|GMT|[+-]\d\d:?\d\d|IST|India|Asia/.test(title)));
    assert.deepEqual(bare.slice(0, 3), []);
  });
});

test("k8_the_url_of_each_view_reproduces_it", async () => {
  const window = await openWindow(browser);
  const page = await open(window, program.url);
  const heading = () => page.evaluate(() => document.querySelector("main h1")?.innerText);
  for (const { name, route } of views(program)) {
    await visit(page, route);
    const [first, here] = [await heading(), page.url()];
    assert.ok(first, `${name} has no heading`);
    await page.goto("about:blank");
    await page.goto(here);
    await settled(page);
    assert.equal(await heading(), first, name);
    assert.equal(page.url(), here, name);
  }
  await window.close();
});
