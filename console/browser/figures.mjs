// `cargo xtask console-figures`: how fast the console answers, with a tree of 100,000 busy actors
// and a run with a million records. `--records N` takes a shorter run.

import { launch, open, openWindow } from "./support/browser.mjs";
import { start } from "./support/site.mjs";

const CLICK_MAX_MS = 100;
const PAINT_MAX_MS = 300;
const CLICKS = 20;

const options = process.argv.slice(2);
const records = options[options.indexOf("--records") + 1] ?? "1000000";
const program = await start("--wide", "100000", "--records", options.includes("--records") ? records : "1000000", "--busy");
const browser = await launch();
const window = await openWindow(browser);

const median = (list) => [...list].sort((one, other) => one - other)[Math.floor(list.length / 2)];

/** Milliseconds until `shows` is true in the page, measured there, after `act`. */
async function time(page, act, shows, argument) {
  const waiting = page.evaluate(([source, argument]) => new Promise((resolve) => {
    const shows = new Function("argument", `return (${source})(argument)`);
    let begun = null;
    addEventListener("pointerdown", () => (begun ??= performance.now()), { capture: true, once: true });
    addEventListener("keydown", () => (begun ??= performance.now()), { capture: true, once: true });
    const look = () => (begun !== null && shows(argument) ? resolve(performance.now() - begun) : requestAnimationFrame(look));
    look();
  }), [shows.toString(), argument]);
  await act();
  return waiting;
}

export { CLICKS, CLICK_MAX_MS, PAINT_MAX_MS, browser, median, open, program, time, window };
