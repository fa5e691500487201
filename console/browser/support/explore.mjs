// Opens everything that can be opened: the parts of each page, what folds, every dialog, the editor,
// and what will happen before each action. Nothing is confirmed.

import { open, settled, visit } from "./browser.mjs";

/** Buttons that save or copy something, or only move the reader. */
const PLAIN = /^(copy|copied|not copied|save|download|incident|show in|newest|older|newer|back|first|last|next|now|open all|close)/i;

/** Buttons that ask the console for a plan. */
const PLANS = /^(see what will happen|what will happen|check)/i;

/** Pages that are no view of the list: forms, what is not there, and what asks for something. */
export const OTHER_PAGES = [
  ["fork", "/run?store=s0&run=failed-03&edit=fork"],
  ["fork-large", "/run?store=s0&run=large&edit=fork"],
  ["run-missing", "/run?store=s0&run=there-is-none"],
  ["run-damaged", "/run?store=s0&run=damaged-row"],
  ["record", "/run?store=s0&run=failed-00&tab=timeline&record=2"],
  ["compared", "/run?store=s0&run=failed-00&tab=compare&from=1&to=2"],
  ["member-missing", "/member?process=p0&path=/user/nobody"],
  ["failed-query", "/runs?store=s0&status=bogus"],
  ["no-runs", "/runs?store=s0&id-prefix=there-is-none"],
  ["tree-open", "/tree?process=p0&open=/&open=/user&open=/user/shop"],
  ["no-page", "/there-is-none"],
];

/** Calls `look(page, name)` with everything that can be opened on these views. */
export async function explore(window, url, views, look) {
  const page = await open(window, url);
  const seen = new Set();
  for (const { name, route } of views) {
    await visit(page, route);
    await look(page, name);
    for (const part of [null, ...(await parts(page))]) {
      if (part !== null) {
        await visit(page, route);
        await press(page, part, true);
        await settled(page);
        await look(page, `${name}, ${part}`);
      }
      await openAll(page, part === null ? name : `${name}, ${part}`, seen, look);
      await visit(page, route);
    }
  }
  await dialogsOfKeys(page, look);
  await page.close();
}

/** The names of the parts of a page that are not shown. */
function parts(page) {
  return page.evaluate(() => [...document.querySelectorAll("main .choice button[aria-pressed=false]")].map((button) => button.innerText.trim()));
}

/** The names of the buttons of the page. Numbers make no difference: rows have the same buttons. */
function buttons(page) {
  return page.evaluate(() => {
    const nameOf = (button) => (button.getAttribute("aria-label") ?? button.innerText).trim().replace(/\d+/g, "#").replace(/\s+/g, " ");
    const all = [...document.querySelectorAll("main button:not(.choice button), main summary")];
    return [...new Set(all.filter((button) => !button.disabled && button.getClientRects().length > 0).map(nameOf))];
  });
}

/** Presses the first button with a name. Returns false if there is none any more. */
function press(page, name, isPart = false) {
  return page.evaluate(([name, isPart]) => {
    const nameOf = (button) => (button.getAttribute("aria-label") ?? button.innerText).trim().replace(/\d+/g, "#").replace(/\s+/g, " ");
    const all = [...document.querySelectorAll(isPart ? "main .choice button" : "main button:not(.choice button), main summary")];
    const button = all.find((button) => (isPart ? button.innerText.trim() : nameOf(button)) === name && !button.disabled && button.getClientRects().length > 0);
    button?.click();
    return Boolean(button);
  }, [name, isPart]);
}

const frames = (page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));

/** Presses each button whose kind was not pressed on a page before. */
async function openAll(page, where, seen, look) {
  const here = page.url();
  for (const name of await buttons(page)) {
    if (seen.has(name) || PLAIN.test(name)) continue;
    seen.add(name);
    if (!(await press(page, name))) continue;
    await frames(page);
    if (await page.locator("dialog[open]").count()) {
      await dialog(page, `${where}: ${name}`, look);
    } else {
      await settled(page);
      await look(page, `${where}: ${name}`);
    }
    if (page.url() !== here) await visit(page, here);
  }
}

/** Looks at the dialog that is open, at the plan that it asks for, and closes it. */
async function dialog(page, where, look) {
  const box = page.locator("dialog[open]").last();
  const ready = () => page.waitForFunction(() => !document.querySelector("dialog[open] .loading, dialog[open] [aria-busy=true]"));
  await ready();
  await look(page, where);
  const plan = box.getByRole("button", { name: PLANS }).first();
  if (await plan.count()) {
    for (const field of await box.locator("input:not([type=radio]):not([type=checkbox]), textarea").all()) {
      if ((await field.isVisible()) && (await field.inputValue()) === "") await field.fill("1");
    }
    if (await plan.isEnabled()) {
      await plan.click();
      await ready();
      await look(page, `${where}, what will happen`);
    }
  }
  while (await page.locator("dialog[open]").count()) {
    await page.keyboard.press("Escape");
    await frames(page);
  }
}

/** The dialogs that only keys open. */
async function dialogsOfKeys(page, look) {
  for (const [key, name] of [["?", "all keys"], ["Control+k", "palette"]]) {
    await page.evaluate(() => document.activeElement?.blur());
    await page.keyboard.press(key);
    await page.locator("dialog[open]").waitFor();
    await dialog(page, name, look);
  }
}
