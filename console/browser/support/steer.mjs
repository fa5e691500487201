// Orders an action on a page, as a person does: the plan, the reason, the confirmation, the result.

import { PATIENCE } from "./browser.mjs";

/** Fills in the dialog or card of an action that is open. Returns its plan and what happened. */
export async function confirm(page, verb, reason) {
  const form = page.locator("form.action").filter({ has: page.locator(".will") });
  await form.waitFor({ timeout: PATIENCE });
  const will = await form.locator(".will li").allInnerTexts();
  const preview = await form.locator(".preview").allInnerTexts();
  await form.getByRole("textbox", { name: /^Reason/ }).fill(reason);
  await form.getByRole("button", { name: verb, exact: true }).click();
  return { will, preview: preview.join(" ") };
}

/** The result that the dialog shows: the outcome and its text. */
export async function result(page) {
  const shown = page.locator(".action[role=status]");
  await shown.waitFor({ timeout: PATIENCE });
  const outcome = (await shown.locator(".badge").innerText()).trim();
  const text = await shown.locator(".result-text").innerText();
  await shown.getByRole("button", { name: "Close" }).click();
  return { outcome, text };
}

/** Opens the dialog of an action by a button of the page. */
export async function order(page, name) {
  await page.getByRole("button", { name }).first().click();
}
