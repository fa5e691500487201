// Every view: no error, right at three widths and in both themes, for readers who set their browser
// otherwise, and at its URL. Each view is visited once, and all checks look at it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible, assertClean, launch, open, openWindow, settled, shoot, sideways, visit } from "./support/browser.mjs";
import { site } from "./support/site.mjs";
import { views } from "./support/views.mjs";

/** The widths of pictures: a phone, a laptop, a large screen. */
const SIZES = [[320, 800], [1280, 900], [3840, 2160]];

const USUAL = { width: 1280, height: 900 };

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

/** What must be true of each view, by the name of its test. Each leaves the page as it was. */
const CHECKS = {
  async k10_each_view_is_answered_without_an_error(page, name) {
    const { mark, failed } = await page.evaluate((mark) => ({ mark: window[mark], failed: document.querySelector("main .failed")?.innerText }), program.mark);
    assert.equal(failed, undefined);
    assert.equal(mark, undefined, "script of a program ran");
    await assertClean(page, name);
  },

  async k9_every_time_names_its_zone(page) {
    const bare = await page.evaluate(() => [...document.querySelectorAll("main time")].map((time) => time.title).filter((title) => !/UTC|GMT|[+-]\d\d:?\d\d|IST|India|Asia/.test(title)));
    assert.deepEqual(bare.slice(0, 3), []);
  },

  async k9_no_view_scrolls_sideways_in_both_themes_picture(page, name) {
    for (const [width, height] of SIZES) {
      await page.setViewportSize({ width, height });
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        await shoot(page, `${name}-${width}-${colorScheme}`);
        assert.deepEqual(await sideways(page), [], `${width} pixels, ${colorScheme}`);
      }
    }
    await page.emulateMedia({ colorScheme: null });
    await page.setViewportSize(USUAL);
  },

  async k9_at_400_percent_a_view_reflows_and_leaves_room_to_read(page) {
    // 1280 by 1024 pixels at 400 percent.
    await page.setViewportSize({ width: 320, height: 256 });
    assert.deepEqual(await sideways(page), []);
    const fixed = await page.evaluate(() => [...document.querySelectorAll("body *")].filter((element) => {
      const { position, visibility } = getComputedStyle(element);
      const box = element.getBoundingClientRect();
      return ["fixed", "sticky"].includes(position) && visibility === "visible" && box.height > innerHeight / 2 && box.width > innerWidth / 2;
    }).map((element) => `${element.tagName}.${element.className}`));
    await page.setViewportSize(USUAL);
    assert.deepEqual(fixed, [], "something stays over more than half of the page");
  },

  async k9_nothing_moves_for_readers_who_asked_for_that(page) {
    await page.emulateMedia({ reducedMotion: "reduce" });
    const moving = await page.evaluate(() => document.getAnimations().filter((animation) => animation.playState === "running" && animation.effect.getComputedTiming().duration > 1).map((animation) => animation.effect.target?.className));
    await page.emulateMedia({ reducedMotion: null });
    assert.deepEqual(moving, []);
  },

  async k9_forced_colours_keep_text_and_focus_visible(page, name) {
    await page.emulateMedia({ forcedColors: "active" });
    await page.keyboard.press("Tab");
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, "none", "the focus cannot be seen");
    await assertAccessible(page, name);
    await page.emulateMedia({ forcedColors: null });
  },

  async k8_the_url_of_each_view_reproduces_it(page) {
    // Home says how many things are wrong now, which may change.
    const heading = () => page.evaluate(() => document.querySelector("main h1")?.innerText.replace(/\d+ things are|One thing is/gi, "Things are"));
    const [first, here] = [await heading(), page.url()];
    assert.ok(first, "it has no heading");
    await page.reload();
    await settled(page);
    assert.equal(await heading(), first);
    assert.equal(page.url(), here);
  },
};

/** The failures of each check. All views are visited once, when the first test asks. */
let failures;

async function visitAll() {
  const failures = Object.fromEntries(Object.keys(CHECKS).map((name) => [name, []]));
  const window = await openWindow(browser, { timezoneId: "Asia/Kolkata" });
  const page = await open(window, program.url);
  for (const { name, route } of views(program)) {
    await visit(page, route);
    for (const [check, look] of Object.entries(CHECKS)) {
      await look(page, name).catch((error) => failures[check].push(`${name}: ${error.message}`));
    }
  }
  await window.close();
  return failures;
}

for (const check of Object.keys(CHECKS)) {
  test(check, async () => {
    failures ??= visitAll();
    assert.deepEqual((await failures)[check], []);
  });
}
