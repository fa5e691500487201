// What a page of the console must not do, whatever a program writes into its texts.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertClean, launch, open, openWindow } from "./support/browser.mjs";
import { Api, site } from "./support/site.mjs";
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

test("k7_the_token_leaves_the_address_and_there_is_no_cookie", async () => {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/runs?store=s0");
  const { token } = new Api(program.url);
  assert.ok(!page.url().includes(token), page.url());
  assert.deepEqual(await window.cookies(), []);
  const kept = await page.evaluate(() => [JSON.stringify(localStorage), document.cookie, document.referrer].join());
  assert.ok(!kept.includes(token), "the token is kept for longer than the tab");
  const stranger = await (await openWindow(browser)).newPage();
  await stranger.goto(new URL("/runs?store=s0", program.url).href);
  await stranger.waitForSelector("input[name=token]");
  await window.close();
});

test("k7_inline_script_and_foreign_requests_do_not_run", async () => {
  const window = await openWindow(browser);
  const page = await open(window, program.url, "/");
  const tried = await page.evaluate(async () => {
    let isRefused = false;
    try {
      document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.ran = 1'>");
    } catch {
      isRefused = true;
    }
    const script = document.createElement("script");
    try {
      script.textContent = "window.ran = 1";
    } catch {
      isRefused = true;
    }
    document.body.append(script);
    const foreign = await fetch("http://127.0.0.1:9/").then(() => "sent", (error) => error.message);
    return { ran: window.ran, isRefused, foreign };
  });
  assert.deepEqual({ ran: tried.ran, isRefused: tried.isRefused }, { ran: undefined, isRefused: true });
  const violations = await page.evaluate(() => window.violations);
  assert.ok(violations.some((text) => text.startsWith("connect-src")), violations.join());
  await window.close();
});

test("k7_script_in_every_field_is_shown_as_text", async () => {
  const window = await openWindow(browser);
  for (const { name, route } of views(program).filter(({ name }) => /hostile|failing|failures|letters|runs|waiting/.test(name))) {
    const page = await open(window, program.url, route);
    const found = await page.evaluate((mark) => ({
      ran: window[mark],
      images: document.querySelectorAll("img[src='x']").length,
      scripts: [...document.scripts].filter((script) => !script.src).length,
      control: /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/.exec(document.body.innerText.replaceAll("\t", ""))?.[0].codePointAt(0),
    }), program.mark);
    assert.deepEqual(found, { ran: undefined, images: 0, scripts: 0, control: undefined }, name);
    await assertClean(page, name);
    await page.close();
  }
  await window.close();
});
