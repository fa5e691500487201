// Uses a page with the keyboard alone.

import assert from "node:assert/strict";

/** The most presses of Tab before a test gives up. */
const TABS_MAX = 150;

/** What has the focus: its accessible name or text, and its role or element. */
export function focused(page) {
  return page.evaluate(() => {
    const element = document.activeElement;
    const label = element.getAttribute("aria-label") ?? element.labels?.[0]?.innerText ?? element.innerText ?? "";
    return { name: label.trim().replace(/\s+/g, " "), kind: element.getAttribute("role") ?? element.tagName.toLowerCase() };
  });
}

/**
 * Presses Tab until something with this name has the focus; `inside` is a selector that must
 * contain it. Each stop on the way must show that it has the focus.
 */
export async function tabTo(page, name, { inside, key = "Tab" } = {}) {
  const seen = [];
  for (let presses = 0; presses < TABS_MAX; presses += 1) {
    await page.keyboard.press(key);
    const now = await focused(page);
    seen.push(now.name.slice(0, 40));
    const isInside = !inside || (await page.evaluate((selector) => Boolean(document.activeElement.closest(selector)), inside));
    if (isInside && name.test(now.name)) {
      assert.ok(await showsFocus(page), `the focus on "${now.name}" cannot be seen`);
      return;
    }
  }
  throw new Error(`${key} does not reach ${name}; it went: ${seen.join(" | ")}`);
}

/** Whether the element with the focus, or one around it, looks as if it has it. */
function showsFocus(page) {
  return page.evaluate(() => {
    for (let element = document.activeElement; element && element !== document.body; element = element.parentElement) {
      const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
      if ((outlineStyle !== "none" && outlineWidth !== "0px") || boxShadow !== "none") return true;
    }
    return false;
  });
}
