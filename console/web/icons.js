// The drawings of the page: shapes that can be told apart without colour. 16 by 16, in the colour
// of the text.

import { html } from "./lib.js";

const LINES = {
  ok: "M3.5 8.5l3 3 6-7",
  error: "M5 1.8h6L14.2 5v6L11 14.2H5L1.8 11V5zM5.7 5.7l4.6 4.6M10.3 5.7l-4.6 4.6",
  warning: "M8 2.2L14.6 13.5H1.4zM8 6.4v3.4M8 11.6v.2",
  waiting: "M4 2h8M4 14h8M5 2v2.2L8 8l3-3.8V2M5 14v-2.2L8 8l3 3.8V14",
  info: "M8 14A6 6 0 108 2a6 6 0 000 12zM8 7.4v3.6M8 5v.2",
  idle: "M8 12.5a4.5 4.5 0 100-9 4.5 4.5 0 000 9z",
  suspended: "M5.5 3.5v9M10.5 3.5v9",
  restarting: "M13 8a5 5 0 11-1.5-3.6M13 2v3h-3",
  stopped: "M4 4h8v8H4z",
  right: "M6 3.5L10.5 8 6 12.5",
  down: "M3.5 6L8 10.5 12.5 6",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  command: "M2.5 4l4 4-4 4M8 12.5h5.5",
  json: "M6 2.5c-2 0-2 1-2 2.5S4 7.5 2.5 8C4 8.5 4 9.5 4 11s0 2.5 2 2.5M10 2.5c2 0 2 1 2 2.5s0 2.5 1.5 3c-1.5.5-1.5 1.5-1.5 3s0 2.5-2 2.5",
  save: "M8 2v8M4.5 7L8 10.5 11.5 7M2.5 13.5h11",
  search: "M7 11.5a4.5 4.5 0 100-9 4.5 4.5 0 000 9zM10.4 10.4l3.4 3.4",
  lock: "M4 7.5h8v6H4zM5.5 7.5V5a2.5 2.5 0 015 0v2.5",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  close: "M4 4l8 8M12 4l-8 8",
  sun: "M8 11a3 3 0 100-6 3 3 0 000 6zM8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1",
  moon: "M13 9.5A5.5 5.5 0 016.5 3a5.5 5.5 0 106.5 6.5z",
  auto: "M8 14A6 6 0 108 2a6 6 0 000 12zM8 2v12M10 4v8M12 6v4",
  clock: "M8 14A6 6 0 108 2a6 6 0 000 12zM8 4.5V8l2.5 1.8",
  link: "M6.5 9.5l3-3M7 4.5l1.2-1.2a3 3 0 014.2 4.2L11.2 8.7M9 11.5l-1.2 1.2a3 3 0 01-4.2-4.2l1.2-1.2",
  home: "M2.5 7.5L8 2.5l5.5 5M4 6.5v7h8v-7",
  tree: "M3 2.5v9.5h4M3 6h4M9 6h4.5M9 12h4.5",
  failures: "M8 2.2L14.6 13.5H1.4zM8 6.4v3.4M8 11.6v.2",
  runs: "M3.5 5.5a2 2 0 100-4 2 2 0 000 4zM12.5 14.5a2 2 0 100-4 2 2 0 000 4zM3.5 5.5c0 5 9 2 9 5M12.5 5.5a2 2 0 100-4 2 2 0 000 4z",
  people: "M8 8a2.8 2.8 0 100-5.6A2.8 2.8 0 008 8zM2.8 14c.4-3 2.5-4.2 5.2-4.2s4.8 1.2 5.2 4.2",
  workers: "M2.5 2.5h11v4h-11zM2.5 9.5h11v4h-11zM5 4.5h.2M5 11.5h.2",
  deploy: "M8 13.5v-9M4.5 7.5L8 4l3.5 3.5M2.5 2h11",
  actions: "M3 2.5h10v11H3zM5.5 5.5h5M5.5 8h5M5.5 10.5h3",
  actor: "M8 12.5a4.5 4.5 0 100-9 4.5 4.5 0 000 9zM8 9a1 1 0 100-2 1 1 0 000 2z",
  supervisor: "M8 2L14 5.5v5L8 14l-6-3.5v-5z",
  pool: "M5.5 9a3 3 0 100-6 3 3 0 000 6zM10.5 13a3 3 0 100-6 3 3 0 000 6z",
  scope: "M5 2.5H2.5v11H5M11 2.5h2.5v11H11",
  task: "M3 3h10v10H3zM6 8h4",
  group: "M3 3.5h10M3 8h10M3 12.5h10",
  guardian: "M8 1.8l5.5 2v4.4c0 3-2.3 5-5.5 6-3.2-1-5.5-3-5.5-6V3.8z",
  root: "M8 2.5v11M3 7l5-4.5L13 7M5 13.5h6",
};

/** The shape of each kind of member. */
const KINDS = { run: "runs", blocking_job: "task" };

/** Sizes are those at 14 px, and grow with the text. */
const sizeOf = (size) => `${(size / 14).toFixed(3)}rem`;

/** Draws a shape. It is decoration unless `label` is given. */
export function Icon({ name, label, size = 16 }) {
  return html`<svg class="icon" width=${sizeOf(size)} height=${sizeOf(size)} viewBox="0 0 16 16" role=${label ? "img" : undefined}
    aria-label=${label} aria-hidden=${label ? undefined : "true"} focusable="false">
    <path d=${LINES[name] ?? LINES.info} fill="none" stroke="currentColor" stroke-width="1.5"
      stroke-linecap="round" stroke-linejoin="round" /></svg>`;
}

/** Draws the shape of a kind of member. */
export function KindIcon({ kind }) {
  return html`<${Icon} name=${LINES[kind] ? kind : (KINDS[kind] ?? "actor")} />`;
}
