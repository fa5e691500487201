// Numbers keep every digit: in views, in the editor, in a fork, in files.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { readFile } from "node:fs/promises";
import { launch, open, openWindow } from "./support/browser.mjs";
import { Api, eventually, site } from "./support/site.mjs";
import { confirm } from "./support/steer.mjs";

const BIG = "9223372036854775807";
const HUGE = "340282366920938463463374607431768211455";

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

/** The text of a state, as the store has it. */
const state = async (run) => (await api.view({ view: "value", store: "s0", run, pointer: "", first: 0 })).text;

test("k5_numbers_are_exact_through_view_edit_and_fork", async () => {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/run?store=s0&run=failed-06&tab=state");
  const shown = await eventually(async () => {
    const text = await page.locator("main").innerText();
    return text.includes(BIG) && text;
  }, "the state is shown");
  for (const number of [BIG, HUGE, "0.1"]) assert.ok(shown.includes(number), number);
  await page.getByRole("link", { name: "Overview" }).or(page.getByRole("button", { name: "Overview" })).click();
  await page.getByRole("link", { name: /^Fork…/ }).click();
  const editor = page.getByRole("textbox", { name: "State of the fork, as JSON" });
  await editor.waitFor();
  const text = await eventually(async () => {
    const text = (await editor.innerText()).replaceAll("\u00a0", " ");
    return text.includes(BIG) && text;
  }, "the editor has the state");
  assert.ok(text.includes(HUGE));
  // The editor draws only the lines on the screen, so the text is changed in place.
  await editor.locator("span", { hasText: /^"nowhere"$/ }).dblclick();
  await page.keyboard.insertText("Ghent");
  await eventually(async () => /Rust can read this text/.test(await page.locator("main").innerText()), "the text is checked");
  await page.getByRole("textbox", { name: "Id of the new run" }).fill("corrected");
  await page.getByRole("button", { name: "See what will happen" }).click();
  await confirm(page, "Fork it", "wrong address");
  await page.waitForURL(/run=corrected/);
  await eventually(async () => (await api.view({ view: "run", store: "s0", run: "corrected" })).show.status === "finished", "the fork arrives", 30);
  const forked = await state("corrected");
  for (const part of [`"number":${BIG}`, `"checksum":${HUGE}`, '"rate":0.1', '"address":"Ghent"']) assert.ok(forked.replaceAll(" ", "").includes(part.replaceAll(" ", "")), `${part} is not in ${forked}`);
  assert.ok((await state("failed-06")).includes("nowhere"), "the first run has changed");
  await window.close();
});

test("k5_a_text_that_rust_cannot_read_is_shown_with_its_place", async () => {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/run?store=s0&run=failed-08&edit=fork");
  const editor = page.getByRole("textbox", { name: "State of the fork, as JSON" });
  await editor.waitFor();
  await editor.focus();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText('{"number": 1,}');
  const problem = page.locator(".fork-state .field-problem");
  await problem.waitFor();
  assert.match(await problem.innerText(), /line 1|column|comma/i);
  assert.ok(await page.getByRole("button", { name: "See what will happen" }).isDisabled());
  await window.close();
});

test("k9_letters_typed_into_the_editor_are_no_keys_of_the_page", async () => {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/run?store=s0&run=failed-08&edit=fork");
  const editor = page.getByRole("textbox", { name: "State of the fork, as JSON" });
  await editor.waitFor();
  await editor.focus();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("?gr/j");
  assert.match(await editor.innerText(), /^\?gr\/j/);
  assert.match(page.url(), /edit=fork/);
  assert.equal(await page.locator("dialog").count(), 0);
  await window.close();
});

test("k5_the_download_of_a_state_has_every_digit_and_no_secret", async () => {
  const window = await openWindow(browser, { acceptDownloads: true });
  const page = await open(window, program.url, "/run?store=s0&run=failed-06&tab=state");
  const downloading = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download" }).first().click();
  const text = await readFile(await (await downloading).path(), "utf8");
  for (const number of [BIG, HUGE, "0.1"]) assert.ok(text.includes(number), `${number} is not in ${text.slice(0, 300)}`);
  for (const secret of program.secrets) assert.ok(!text.includes(secret), "a secret is in the file");
  await window.close();
});

test("k5_a_large_state_is_opened_one_level_at_a_time", async () => {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/run?store=s0&run=large&tab=state");
  const steps = page.getByRole("button", { name: /steps/ });
  await steps.click();
  await eventually(async () => /step 5/.test(await page.locator("main").innerText()), "the first items are shown");
  const more = page.getByRole("button", { name: /more: show/ });
  assert.match(await more.innerText(), /19,\d{3} more/);
  await window.close();
});
