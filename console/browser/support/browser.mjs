// The browser, and pages that remember everything that went wrong in them.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const modules = process.env.PLEACH_NODE_MODULES;
if (!modules) throw new Error("PLEACH_NODE_MODULES is not set: use `cargo xtask test console`");
const require = createRequire(join(modules, "index.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/** Where pictures go; none are taken without it. */
const SHOTS = process.env.PLEACH_SHOTS;

/** The rules of axe: everything that WCAG 2.2 AA asks for, and what is good practice. */
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** How long something on a page may take, on a busy machine. */
export const PATIENCE = 20_000;

/** Starts Chromium. It shares nothing with a browser of the user. */
export async function launch() {
  // Root cannot use the sandbox. The pages are those of the console alone.
  return chromium.launch({ executablePath: process.env.PLEACH_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
}

/** A window with its own storage. `options` are those of playwright. */
export async function openWindow(browser, options = {}) {
  const window = await browser.newContext({ viewport: { width: 1280, height: 900 }, timezoneId: "UTC", locale: "en-GB", ...options });
  window.setDefaultTimeout(PATIENCE);
  await window.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
  });
  return window;
}

/**
 * Opens a page of the console. `route` has its parameters. `page.faults` collects errors of
 * scripts, messages of the browser, and requests to other places.
 */
export async function open(window, url, route = "/") {
  const page = await window.newPage();
  page.faults = [];
  const { origin, hash } = new URL(url);
  page.on("pageerror", (error) => page.faults.push(`error: ${error.stack ?? error.message}`));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) page.faults.push(`${message.type()}: ${message.text()} ${message.location().url}`);
  });
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== origin) page.faults.push(`foreign request: ${request.url()}`);
  });
  await page.goto(origin + route + hash);
  await settled(page);
  return page;
}

/** Goes to another view in the same page, as a link does, and forgets former faults. */
export async function visit(page, route) {
  page.faults = [];
  await page.evaluate((href) => {
    window.violations = [];
    history.pushState(null, "", href);
    dispatchEvent(new PopStateEvent("popstate"));
    return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  }, route);
  await settled(page);
}

/** Waits until the page shows something other than that it is loading. */
export async function settled(page) {
  await page.waitForFunction(() => {
    const main = document.querySelector("main");
    return main && !main.querySelector(".loading, .boot") && main.innerText.trim().length > 0;
  });
}

/** Fails if something went wrong in the page. `expected` are parts of messages that may be there. */
export async function assertClean(page, what, expected = []) {
  const violations = await page.evaluate(() => window.violations);
  const faults = [...page.faults, ...violations.map((text) => `policy: ${text}`)];
  const unexpected = faults.filter((fault) => !expected.some((part) => fault.includes(part)));
  assert.deepEqual(unexpected, [], `faults in ${what}`);
}

/** What axe finds in the page, or in the dialog that is open. `only` are names of rules; default: all. */
export async function axeFinds(page, only) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const runOnly = only ? { type: "rule", values: only } : { type: "tag", values: RULES };
  return page.evaluate(async (runOnly) => {
    // Colours that are still changing are none to judge.
    for (const animation of document.getAnimations()) if (Number.isFinite(animation.effect.getComputedTiming().endTime)) animation.finish();
    const place = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document;
    const { violations } = await window.axe.run(place, { runOnly, resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id}: ${target.join(" ")}: ${failureSummary.replaceAll("\n", " ")}`));
  }, runOnly);
}

/** Fails if axe finds something in the page. */
export async function assertAccessible(page, what) {
  assert.deepEqual(await axeFinds(page), [], `axe in ${what}`);
}

/** What makes the page scroll sideways. */
export function sideways(page) {
  return page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    const beyond = [...document.querySelectorAll("body *")].filter((element) => {
      const box = element.getBoundingClientRect();
      return box.width > 0 && box.right > clientWidth + 1 && !element.closest(".unseen");
    });
    return [`${scrollWidth} > ${clientWidth}`, ...beyond.slice(0, 8).map((element) => `${element.tagName}.${element.className} to ${Math.round(element.getBoundingClientRect().right)}`)];
  });
}

/** Takes a picture, if pictures are wanted. */
export async function shoot(page, name) {
  if (!SHOTS) return;
  mkdirSync(SHOTS, { recursive: true });
  await page.screenshot({ path: join(SHOTS, `${name}.png`), animations: "disabled" });
}
