// The keys of the page. Letters do nothing while something is typed, or when they are switched off.

import { signal } from "./lib.js";
import { isDialogOpen } from "./dialog.js";
import { go, link } from "./router.js";

const KEY = "pleach.keys";
const PREFIX_MS = 1200;

/** False if the reader switched the letters off. Ctrl-K always works. */
export const areLettersOn = signal(readSetting());

function readSetting() {
  try {
    return globalThis.localStorage?.getItem(KEY) !== "off";
  } catch {
    return true;
  }
}

/** Switches the letters on or off, in this browser only. */
export function switchLetters(isOn) {
  areLettersOn.value = isOn;
  try {
    localStorage.setItem(KEY, isOn ? "on" : "off");
  } catch {
    // Not kept; it holds for this page.
  }
}

/** Pages by the letter after `g`. */
export const JUMPS = [
  ["h", "/", "Home"], ["t", "/tree", "Tree"], ["f", "/failures", "Failures"], ["r", "/runs", "Runs"],
  ["w", "/waiting", "Waiting for people"], ["o", "/workers", "Workers"], ["d", "/deploy", "Deploy check"], ["a", "/actions", "Actions"],
];

/** Whether something is typed, also inside a shadow root such as that of the editor. */
const isTyping = (event) => event.composedPath().some((part) => part.matches?.("input, textarea, select, [contenteditable], [data-keys]"));

let jumpUntil = 0;

/** Listens to keys. `openPalette` and `openHelp` are the two windows they open. Called once. */
export function startKeys({ openPalette, openHelp }) {
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette();
      return;
    }
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!areLettersOn.value || isTyping(event) || isDialogOpen()) return;
    if (letter(event.key, openHelp)) event.preventDefault();
  });
}

function letter(key, openHelp) {
  if (performance.now() < jumpUntil) {
    jumpUntil = 0;
    const jump = JUMPS.find(([name]) => name === key);
    if (jump) go(link(jump[1]));
    return Boolean(jump);
  }
  if (key === "g") jumpUntil = performance.now() + PREFIX_MS;
  else if (key === "?") openHelp();
  else if (key === "/") return focusOn("[data-filter]");
  else if (key === "j" || key === "k") return focusOn("[data-grid] [tabindex='0']") || moveFocus(key === "j" ? 1 : -1);
  else return false;
  return true;
}

function focusOn(selector) {
  const element = document.querySelector(`main ${selector}`);
  if (!element) return false;
  element.focus();
  element.select?.();
  return true;
}

/** Moves between the entries of a page that is a list of cards: elements with `data-entry`. */
function moveFocus(step) {
  const entries = [...document.querySelectorAll("main [data-entry]")];
  if (entries.length === 0) return false;
  const now = entries.findIndex((entry) => entry.contains(document.activeElement));
  const next = entries[now === -1 ? (step > 0 ? 0 : entries.length - 1) : Math.max(0, Math.min(entries.length - 1, now + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}
