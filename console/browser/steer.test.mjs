// Every action: what will happen, the reason, the confirmation, the result, and the record of it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, openWindow, settled } from "./support/browser.mjs";
import { Api, eventually, site, stores } from "./support/site.mjs";
import { confirm, order, result } from "./support/steer.mjs";

let browser;
let program;
let api;
let window;

before(async () => {
  program = await site();
  api = new Api(program.url);
  browser = await launch();
  window = await openWindow(browser);
});
after(async () => {
  await browser?.close();
  await program?.stop();
});

/** What the store says about a run. */
const run = async (store, id) => (await api.view({ view: "run", store, run: id })).show;

const openRun = (store, id, more = "") => open(window, program.url, `/run?store=${store}&run=${id}${more}`);

/** Fails unless the newest entry of the record of actions about a run or member is this one. */
async function assertRecorded(kind, subject, reason) {
  const { entries } = await api.view({ view: "actions", limit: 50 });
  const entry = entries.find((one) => one.kind === kind && one.subject === subject);
  assert.ok(entry, `${kind} of ${subject} is not in the record of actions`);
  assert.deepEqual({ who: entry.who, reason: entry.reason }, { who: "ada", reason });
  assert.ok(entry.outcome && entry.at && entry.text !== undefined, JSON.stringify(entry));
}

/** Each simple action on a run: its button, its verb, and what the run is afterwards. */
const SIMPLE = [
  { kind: "pause", id: "waits-2", button: "Pause", verb: "Pause it", then: (show) => show.is_paused },
  { kind: "continue", id: "waits-2", button: "Continue", verb: "Continue it", then: (show) => !show.is_paused },
  { kind: "unstick", id: "stuck", button: "Unstick", verb: "Unstick it", then: (show) => show.status !== "stuck" },
  { kind: "retry", id: "failed-05", button: "Retry", verb: "Retry it", then: (show) => show.status === "failed" && show.record > 0 },
];

for (const store of stores) {
  for (const { kind, id, button, verb, then } of SIMPLE) {
    test(`k4_${kind}_is_planned_confirmed_recorded_and_done_in_${store}`, async () => {
      const page = await openRun(store, id);
      await order(page, button);
      const reason = `${kind} by a test`;
      const { will } = await confirm(page, verb, reason);
      assert.ok(will.length > 0, "the plan says nothing");
      const { outcome, text } = await result(page);
      assert.ok(["done", "stored", "taken"].includes(outcome), `${outcome}: ${text}`);
      await eventually(async () => then(await run(store, id)), `${id} after ${kind}`);
      await assertRecorded(kind, id, reason);
      await page.close();
    });
  }

  test(`k4_delete_removes_the_run_in_${store}`, async () => {
    const page = await openRun(store, "ended-000");
    await order(page, /^Delete/);
    await confirm(page, "Delete it", "old");
    await result(page);
    await assert.rejects(run(store, "ended-000"), /404/);
    await assertRecorded("delete", "ended-000", "old");
    await page.close();
  });

  test(`k4_cancel_asks_for_the_cause_in_${store}`, async () => {
    const page = await openRun(store, "waits-3");
    await order(page, /^Cancel…/);
    await page.getByRole("textbox", { name: /^Reason/ }).fill("sold out");
    await page.getByRole("button", { name: "See what will happen" }).click();
    await confirm(page, "Cancel it", "the shelf is empty");
    await result(page);
    await eventually(async () => (await run(store, "waits-3")).status === "cancelled", "the run is cancelled");
    await assertRecorded("cancel", "waits-3", "the shelf is empty");
    await page.close();
  });

  test(`k4_a_signal_reaches_the_run_in_${store}`, async () => {
    const page = await openRun(store, "signal");
    await order(page, /^Signal…/);
    await page.getByRole("textbox", { name: "Name" }).fill("more");
    await page.getByRole("textbox", { name: /^Value/ }).fill('"it has come"');
    await page.getByRole("button", { name: "See what will happen" }).click();
    await confirm(page, "Send the signal", "by hand");
    await result(page);
    await eventually(async () => (await run(store, "signal")).status === "finished", "the run has finished");
    await assertRecorded("signal", "signal", "by hand");
    await page.close();
  });

  test(`k4_a_rewind_says_what_runs_again_in_${store}`, async () => {
    const page = await openRun(store, "failed-07", "&tab=timeline&record=1");
    await order(page, /^Rewind to here/);
    const { will, preview } = await confirm(page, "Rewind it", "from the start");
    assert.match(`${will.join(" ")} ${preview}`, /charge|pay/, "the plan does not name the effect that runs again");
    await result(page);
    await eventually(async () => (await run(store, "failed-07")).status === "waiting", "the run asks again");
    await assertRecorded("rewind", "failed-07", "from the start");
    await page.close();
  });
}

test("k4_a_bulk_action_has_a_dry_run_a_limit_and_a_result_for_each_run", async () => {
  const page = await open(window, program.url, "/runs?store=s0&status=failed&id-prefix=failed-1");
  await order(page, /^Act on all/);
  const form = page.locator("form.action");
  await form.waitFor();
  const asked = /Type (\d+) to confirm/.exec(await form.innerText());
  assert.ok(asked, await form.innerText());
  assert.equal(asked[1], "2");
  const samples = await form.locator(".samples > li").allInnerTexts();
  assert.equal(samples.length, 2);
  for (const [at, id] of ["failed-10", "failed-11"].entries()) {
    assert.ok(samples.some((text) => text.includes(id) && /at ship/.test(text) && /effect runs again/.test(text)), `sample ${at} does not say what will happen: ${samples.join(" | ")}`);
  }
  const start = form.getByRole("button", { name: /^Retry 2 runs/ });
  assert.ok(await start.isDisabled(), "it starts without the number");
  await form.getByRole("textbox", { name: /^Type/ }).fill("2");
  await form.getByRole("combobox", { name: /per second/ }).selectOption("10");
  await form.getByRole("textbox", { name: /^Reason/ }).fill("all again");
  await start.click();
  await eventually(async () => /2 done|finished/.test(await page.locator(".bulk").innerText()), "all runs are done");
  const { entries } = await api.view({ view: "actions", limit: 20 });
  assert.ok(entries.some((entry) => entry.reason === "all again"), "the bulk action is not recorded");
  await page.close();
});

test("k4_a_status_that_does_not_exist_leaves_the_bulk_dialog_usable", async () => {
  const page = await open(window, program.url, "/runs?store=s0&status=bogus");
  await order(page, /^Act on all/);
  await page.locator("dialog").getByRole("combobox", { name: "Action" }).waitFor();
  assert.ok(!(await page.locator("body").innerText()).includes("page_error"));
  await page.close();
});

test("k4_a_plan_is_refused_if_the_run_has_changed_meanwhile", async () => {
  const page = await openRun("s0", "failed-04");
  await order(page, "Retry");
  const form = page.locator("form.action").filter({ has: page.locator(".will") });
  await form.waitFor();
  const other = { action: { kind: "retry", store: "s0", run: "failed-04" }, reason: "" };
  const { plan } = await api.post("/api/act", { ...other, is_plan: true, plan: null });
  await api.post("/api/act", { ...other, is_plan: false, plan });
  await eventually(async () => {
    const show = await run("s0", "failed-04");
    return show.status === "failed" && !show.driver;
  }, "the run has failed again");
  await form.getByRole("button", { name: "Retry it" }).click();
  await eventually(async () => /changed meanwhile/.test(await form.innerText()), "the page says that the run has changed");
  await page.close();
});

for (const code of ["timed_out", "internal"]) {
  test(`k4_an_order_that_ends_with_${code}_is_not_said_to_be_undone`, async () => {
    const page = await openRun("s0", "failed-02");
    await page.route("**/api/act", async (route) => {
      if (route.request().postDataJSON().is_plan) return route.continue();
      return route.fulfill({ status: 500, contentType: "application/json", body: JSON.stringify({ error: { code, text: "no answer" } }) });
    });
    await order(page, "Retry");
    await confirm(page, "Retry it", "");
    const form = page.locator("form.action");
    await form.locator(".failed").waitFor();
    const text = await form.innerText();
    assert.match(text, /not known whether it was done/);
    assert.doesNotMatch(text, /was not done/);
    assert.match(await form.getByRole("link", { name: "record of actions" }).getAttribute("href"), /^\/actions/);
    await page.close();
  });
}

test("k4_a_console_that_only_looks_plans_and_does_nothing", async () => {
  const reading = new Api(program.reading_url);
  const page = await open(window, program.reading_url, "/run?store=s0&run=failed-03");
  await order(page, "Retry");
  await page.waitForSelector(".will");
  assert.match(await page.locator("form.action").innerText(), /read-only/);
  const action = { action: { kind: "retry", store: "s0", run: "failed-03" }, reason: "" };
  const { plan } = await reading.post("/api/act", { ...action, is_plan: true, plan: null });
  await assert.rejects(reading.post("/api/act", { ...action, is_plan: false, plan }), /read_only/);
  assert.equal((await run("s0", "failed-03")).status, "failed");
  await page.close();
});

for (const { kind, path, button, verb, then } of [
  { kind: "suspend", path: "/user/shop/front", button: /^Suspend/, verb: "Suspend it", then: (member) => member.activity.state === "suspended" },
  { kind: "resume", path: "/user/shop/front", button: /^Resume/, verb: "Resume it", then: (member) => member.activity.state !== "suspended" },
  { kind: "restart", path: "/user/shop/front", button: /^Restart/, verb: "Restart it", then: (member) => member.actor.incarnation > 0 },
  { kind: "stop", path: "/user/wide/child-000007", button: /^Stop/, verb: "Stop it", then: null },
]) {
  test(`k4_${kind}_of_a_member_is_planned_confirmed_recorded_and_done`, async () => {
    const page = await open(window, program.url, `/member?process=p0&path=${path}`);
    const member = () => api.view({ view: "member", process: "p0", path }).then((view) => view.member, () => null);
    await order(page, button);
    const { will } = await confirm(page, verb, `${kind} by a test`);
    assert.ok(will.length > 0, "the plan says nothing");
    const { outcome, text } = await result(page);
    assert.notEqual(outcome, "refused", text);
    await eventually(async () => {
      const now = await member();
      return then ? now && then(now) : now === null;
    }, `${path} after ${kind}`);
    await assertRecorded(kind, path, `${kind} by a test`);
    await page.close();
  });
}

test("k4_the_log_level_of_a_process_is_set", async () => {
  const page = await open(window, program.url, "/tree?process=p0");
  await order(page, /^Log level/);
  await page.getByRole("textbox", { name: /^Level/ }).fill("pleach=debug");
  await page.getByRole("button", { name: "What will happen" }).click();
  await confirm(page, "Set the level", "to see more");
  const { outcome, text } = await result(page);
  assert.notEqual(outcome, "refused", text);
  await page.close();
});

test("k4_the_page_of_actions_shows_who_when_why_and_what_happened", async () => {
  const page = await open(window, program.url, "/actions");
  const text = await page.locator("main").innerText();
  for (const part of ["ada", "from the start", "failed-07"]) assert.ok(text.includes(part), `${part} is not in ${text}`);
  await settled(page);
  await page.goto(new URL("/actions?subject=failed-07", program.url).href);
  await page.getByRole("link", { name: "Show all actions" }).waitFor();
  const about = page.locator("td[data-title=About]");
  const subjects = await about.allInnerTexts();
  assert.ok(subjects.length > 0 && subjects.every((text) => text === "failed-07"), subjects.join());
  await page.getByRole("link", { name: "Show all actions" }).click();
  await eventually(async () => (await about.count()) > subjects.length, "all actions are shown");
  await page.close();
});
