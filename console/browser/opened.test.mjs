// Everything that can be opened on the pages: axe finds nothing, nothing scrolls sideways, and no
// secret is shown. In both themes, on a phone and on a large screen.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertClean, axeFinds, launch, openWindow, shoot, sideways } from "./support/browser.mjs";
import { explore, OTHER_PAGES } from "./support/explore.mjs";
import { Leaks } from "./support/secrets.mjs";
import { site } from "./support/site.mjs";
import { views } from "./support/views.mjs";

const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 320, height: 800 };

/** The rules that depend on the theme. The others need one theme. */
const OF_COLOUR = ["color-contrast", "link-in-text-block"];

/** What the browser says about a page on purpose: a failed request is a message of its console. */
const EXPECTED = ["Failed to load resource"];

let browser;
let program;
const problems = { axe: [], sideways: [], faults: [] };
let leaks;
const looked = [];

before(async () => {
  program = await site();
  browser = await launch();
  leaks = new Leaks(program.secrets);
  const window = await openWindow(browser, { viewport: WIDE, colorScheme: "light" });
  const all = [...views(program), ...OTHER_PAGES.map(([name, route]) => ({ name, route }))];
  await explore(window, program.url, all, look);
  await window.close();
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

async function look(page, name) {
  looked.push(name);
  const text = await page.evaluate(() => [document.documentElement.outerHTML, ...[...document.querySelectorAll("input, textarea, select")].map((field) => field.value)].join("\n"));
  leaks.look(name, text);
  for (const [size, viewport] of Object.entries({ wide: WIDE, narrow: NARROW })) {
    await page.setViewportSize(viewport);
    for (const [colorScheme, rules] of [["light", undefined], ["dark", OF_COLOUR]]) {
      await page.emulateMedia({ colorScheme });
      problems.axe.push(...(await axeFinds(page, rules)).map((found) => `${name}, ${size}, ${colorScheme}: ${found}`));
      await shoot(page, `opened-${name.replace(/[^\w]+/g, "-").slice(0, 80)}-${size}-${colorScheme}`);
    }
    problems.sideways.push(...(await sideways(page)).map((found) => `${name}, ${size}: ${found}`));
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(WIDE);
  await assertClean(page, name, EXPECTED).catch((error) => problems.faults.push(`${name}: ${error.message}`));
}

test("k9_axe_finds_nothing_in_whatever_can_be_opened_picture", () => {
  assert.deepEqual(problems.axe, []);
  assert.ok(looked.length > 100, `only ${looked.length} things were looked at`);
  const words = ["Timeline", "State", "Compare", "About", "JSON of this view", ": Retry", "Rewind", "what will happen", "fork", "record", "palette", "all keys"];
  for (const word of words) assert.ok(looked.some((name) => name.includes(word)), `${word} was not looked at: ${looked.join(" | ")}`);
});

test("k9_nothing_that_can_be_opened_scrolls_sideways", () => assert.deepEqual(problems.sideways, []));

test("k10_nothing_that_can_be_opened_has_an_error", () => assert.deepEqual(problems.faults, []));

test("k7_nothing_that_can_be_opened_shows_a_secret", () => assert.deepEqual(leaks.found.slice(0, 10), []));
