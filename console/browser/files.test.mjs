// JSON, commands and files of the views.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { assertAccessible, launch, open, openWindow } from "./support/browser.mjs";
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

test("k8_each_view_has_its_json_and_a_command", async () => {
  const window = await openWindow(browser);
  const lacking = [];
  for (const { name, route } of views(program)) {
    const page = await open(window, program.url, route);
    const button = page.getByRole("button", { name: /JSON/ }).first();
    if ((await button.count()) === 0) {
      lacking.push(`${name}: no JSON`);
      continue;
    }
    await button.click();
    const json = await page.waitForSelector("dialog pre");
    assert.equal(typeof JSON.parse(await json.innerText()), "object", name);
    await page.keyboard.press("Escape");
    const command = await page.evaluate(() => document.querySelector("main").innerText.includes("pleach ") || Boolean(document.querySelector("main [title*='command' i], main .command")));
    if (!command && name !== "actions") lacking.push(`${name}: no command`);
    await page.close();
  }
  await window.close();
  assert.deepEqual(lacking, []);
});

for (const [what, route] of [["run", "/run?store=s0&run=failed-00"], ["subtree", "/member?process=p0&path=/user/shop"]]) {
  test(`k8_the_file_of_a_${what}_opens_without_a_server`, async () => {
    const window = await openWindow(browser, { acceptDownloads: true });
    const page = await open(window, program.url, route);
    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: /save.*(file|html|incident)|incident/i }).first().click();
    const path = join(folder, `${what}.html`);
    await (await downloading).saveAs(path);
    assert.ok(!readFileSync(path, "utf8").includes(program.secret), "a secret is in the file");
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
