// The palette (Ctrl-K) and the list of keys (`?`).

import { html, signal, useEffect, useId, useMemo, useRef, useState } from "./lib.js";
import { Dialog, isDialogOpen, openDialog } from "./dialog.js";
import { areLettersOn, JUMPS, switchLetters } from "./keys.js";
import { go, hrefOf, link } from "./router.js";
import { process, shown, store } from "./sources.js";
import { PAGES } from "./routes.js";
import { visible } from "./text.js";

/** What the present page adds: a list of `title`, `run`. */
const ofPage = signal([]);

/** Adds commands of a page to the palette, while it is shown. `list`: `title`, `run()`. */
export function useCommands(list, dependencies) {
  useEffect(() => {
    ofPage.value = [...ofPage.value, ...list];
    return () => (ofPage.value = ofPage.value.filter((command) => !list.includes(command)));
  }, dependencies);
}

/** All commands that fit a typed text, the best first. */
export function fitting(commands, text) {
  const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
  return commands
    .map((command, index) => ({ command, index, at: placeIn(command.title.toLowerCase(), parts) }))
    .filter(({ at }) => at !== null)
    .sort((one, other) => one.at - other.at || one.index - other.index)
    .map(({ command }) => command);
}

/** How far in a title the parts begin; null if one is missing. */
function placeIn(title, parts) {
  let sum = 0;
  for (const part of parts) {
    const at = title.indexOf(part);
    if (at === -1) return null;
    sum += at;
  }
  return sum;
}

function commandsFor(text) {
  const typed = text.trim();
  const direct = [];
  if (typed.startsWith("/") && process.value) {
    direct.push({ title: `Go to member ${typed}`, hint: "member", run: () => go(link("/member", { path: typed })) });
    direct.push({ title: `Show ${typed} in the tree`, hint: "tree", run: () => go(link("/tree", { path: typed })) });
  } else if (typed && store.value) {
    direct.push({ title: `Go to run ${typed}`, hint: "run", run: () => go(link("/run", { run: typed })) });
    direct.push({ title: `List runs that begin with ${typed}`, hint: "runs", run: () => go(link("/runs", { "id-prefix": typed })) });
  }
  if (typed && !typed.startsWith("/") && process.value) {
    direct.push({ title: `Find members with “${typed}”`, hint: "members", run: () => go(link("/tree", { show: "top", contains: typed })) });
  }
  const pages = PAGES.filter(({ title }) => title).map(({ route, title }) => ({ title, hint: "page", run: () => go(link(route)) }));
  const { processes = [], stores = [] } = shown.value ?? {};
  const sources = [
    ...processes.map(({ key, name }) => ({ title: `Process ${name}`, hint: key, run: () => go(hrefOf("/tree", { process: key })) })),
    ...stores.map(({ key, name }) => ({ title: `Store ${name}`, hint: key, run: () => go(hrefOf("/runs", { store: key })) })),
  ];
  const all = [...ofPage.value.map((command) => ({ hint: "here", ...command })), ...pages, ...sources];
  return [...fitting(all, typed), ...direct].slice(0, 12);
}

/** Opens the palette. */
export function openPalette() {
  if (isDialogOpen()) return;
  openDialog((close) => html`<${Palette} onClose=${close} />`);
}

function Palette({ onClose }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const input = useRef(null);
  const id = useId();
  const commands = useMemo(() => commandsFor(text), [text, ofPage.value]);
  useEffect(() => input.current.focus(), []);
  const run = (command) => {
    onClose();
    command?.run();
  };
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setChosen((now) => (now + step + commands.length) % Math.max(1, commands.length));
    else if (event.key === "Enter") run(commands[chosen]);
    else return;
    event.preventDefault();
  };
  return html`<${Dialog} title="Go to or do" class="palette" onClose=${onClose}>
    <input ref=${input} class="palette-input" role="combobox" aria-expanded="true" aria-controls=${id} aria-label="Page, path of a member, run, or action"
      aria-activedescendant=${commands.length ? `${id}-${chosen}` : undefined} placeholder="A page, /a/path, a run, or an action" value=${text} spellcheck=${false} autocomplete="off"
      onInput=${(event) => {
        setText(event.currentTarget.value);
        setChosen(0);
      }} onKeyDown=${onKeyDown} />
    <ul class="palette-list" role="listbox" id=${id} aria-label="Commands">${commands.map((command, index) => html`<li key=${index} id=${`${id}-${index}`} role="option" aria-selected=${String(index === chosen)}
      onMouseMove=${() => setChosen(index)} onClick=${() => run(command)}><span>${visible(command.title)}</span><small>${command.hint}</small></li>`)}</ul>
    ${commands.length === 0 && html`<p class="note" role="status">Nothing fits.</p>`}<//>`;
}

const KEYS = [
  ["Ctrl K", "Go to a page, a member or a run; do something"], ["/", "Filter this list"], ["j  k", "Next, previous row or card"],
  ["↑ ↓ Home End", "Move in a list"], ["→ ←", "Open and close a branch"], ["Enter", "Open the row"], ["Space", "Open or close a branch"], ["Esc", "Close a dialog"], ["?", "These keys"],
];

/** Opens the list of keys. */
export function openHelp() {
  openDialog((close) => html`<${Help} onClose=${close} />`);
}

function Help({ onClose }) {
  const line = ([keys, text]) => html`<div key=${keys}><dt><kbd>${keys}</kbd></dt><dd>${text}</dd></div>`;
  return html`<${Dialog} title="Keys" onClose=${onClose}><dl class="keys">${KEYS.map(line)}</dl>
    <h3>Go to</h3><dl class="keys keys-two">${JUMPS.map(([key, , title]) => line([`g ${key}`, title]))}</dl>
    <label class="check"><input type="checkbox" checked=${areLettersOn.value} onChange=${(event) => switchLetters(event.currentTarget.checked)} />
      <span>Keys without Ctrl are on <small>kept in this browser only</small></span></label><//>`;
}
