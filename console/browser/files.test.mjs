// JSON, commands and files of the views.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { assertAccessible, launch, open, openWindow, visit } from "./support/browser.mjs";
import { site } from "./support/site.mjs";
import { views } from "./support/views.mjs";

let browser;
let program;
let folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "pleach-console-files-"));
  program = await site();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await program?.stop();
  rmSync(folder, { recursive: true });
});

/** The record belongs to the console, so no command shows it. */
const WITHOUT_COMMAND = ["actions"];

/** A deploy check has its JSON once the graphs of the new program were chosen. */
const WITHOUT_JSON = ["deploy"];

test("k8_the_commands_of_a_run_with_a_hostile_id_quote_the_id", async () => {
  const window = await openWindow(browser);
  const { route } = views(program).find(({ name }) => name === "run-hostile");
  const id = new URLSearchParams(route.split("?")[1]).get("run");
  const page = await open(window, program.url, `${route}&tab=about`);
  const commands = await page.locator("main .command code").allInnerTexts();
  assert.ok(commands.length >= 2, commands.join("\n"));
  for (const text of commands) {
    const { stdout, status } = spawnSync("sh", ["-c", `pleach() { printf '%s\\n' "$@"; }; ${text}`], { encoding: "utf8" });
    assert.equal(status, 0, text);
    assert.ok(stdout.split("\n").includes(id), `${text} does not pass the id as one word: ${stdout}`);
  }
  await window.close();
});

test("k8_each_view_has_its_json_and_a_command_that_can_be_copied", async () => {
  const window = await openWindow(browser, { permissions: ["clipboard-read", "clipboard-write"] });
  const page = await open(window, program.url);
  const lacking = [];
  for (const { name, route } of views(program)) {
    await visit(page, route);
    const json = page.getByRole("button", { name: "JSON of this view" }).first();
    if (await json.count()) {
      await json.click();
      const text = await page.locator("dialog pre, dialog .failed").first().innerText();
      if (!/^[{[]/.test(text)) lacking.push(`${name}: its JSON is ${text}`);
      await page.keyboard.press("Escape");
    } else if (!WITHOUT_JSON.includes(name)) {
      lacking.push(`${name}: no JSON`);
    }
    if (WITHOUT_COMMAND.includes(name)) continue;
    const commands = await page.locator("main .command").all();
    if (commands.length === 0) lacking.push(`${name}: no command`);
    for (const command of commands) {
      await command.getByRole("button", { name: /Copy as command|Copied/ }).click();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      if (!copied.startsWith("pleach ") || copied !== (await command.locator("code").innerText())) lacking.push(`${name}: it copied ${copied}`);
      const why = refusalOf(copied);
      if (why) lacking.push(`${name}: ${copied}: ${why}`);
    }
  }
  await window.close();
  assert.deepEqual(lacking, []);
});

/** Runs a command of a page with the real program, if there is one. Returns why it did not work. */
function refusalOf(command) {
  const folder = process.env.PLEACH_COMMANDS;
  // These follow something until they are interrupted, or change something.
  if (!folder || !/^pleach (runs (list|show|history|diff)|why|tree|health|doctor) /.test(command)) return null;
  const { status, stderr } = spawnSync("sh", ["-c", command], { env: { ...process.env, PATH: `${folder}:${process.env.PATH}` }, encoding: "utf8", timeout: 20_000 });
  // 7 is the code for problems that were found.
  return [0, 7].includes(status) ? null : `exit code ${status}: ${stderr}`;
}

for (const [what, route] of [["run", "/run?store=s0&run=failed-00"], ["subtree", "/member?process=p0&path=/user/shop"]]) {
  test(`k8_the_file_of_a_${what}_opens_without_a_server`, async () => {
    const window = await openWindow(browser, { acceptDownloads: true });
    const page = await open(window, program.url, route);
    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: /save.*(file|html|incident)|incident/i }).first().click();
    const path = join(folder, `${what}.html`);
    await (await downloading).saveAs(path);
    const saved = readFileSync(path, "utf8");
    for (const secret of program.secrets) assert.ok(!saved.includes(secret), "a secret is in the file");
    const alone = await openWindow(browser, { offline: true });
    const file = await alone.newPage();
    const faults = [];
    file.on("pageerror", (error) => faults.push(error.message));
    file.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    file.on("request", (request) => !request.url().startsWith("file:") && !request.url().startsWith("data:") && faults.push(request.url()));
    await file.goto(pathToFileURL(path).href);
    const text = await file.evaluate(() => document.body.innerText);
    assert.match(text, what === "run" ? /failed-00/ : /\/user\/shop/);
    assert.equal(await file.evaluate((mark) => window[mark], program.mark), undefined);
    assert.deepEqual(faults, []);
    await assertAccessible(file, `the file of a ${what}`);
    await alone.close();
    await window.close();
  });
}

for (const [what, route, part] of [
  ["failure", "/member?process=p0&path=/user/shop/stock", /shelf|\/user\/shop\/stock/],
  ["record", "/run?store=s0&run=failed-00&tab=timeline&record=2", /failed-00/],
]) {
  test(`k4_a_${what}_is_copied_as_a_test_in_rust`, async () => {
    const window = await openWindow(browser, { permissions: ["clipboard-read", "clipboard-write"] });
    const page = await open(window, program.url, route);
    await page.getByRole("button", { name: "Copy as test" }).first().click();
    await page.locator("dialog").getByRole("button", { name: "Copy the test" }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, /#\[(tokio::|pleach::)?test/);
    assert.match(copied, part);
    for (const secret of program.secrets) assert.ok(!copied.includes(secret), "a secret is in the test");
    await window.close();
  });
}
