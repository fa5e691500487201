// The last minutes of a member: its queue and its rates, as plots and as a table. uPlot is loaded
// only here.

import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { useLive } from "../live.js";
import { JsonButton } from "../dialog.js";
import { Button, Section, Time } from "../ui.js";
import { Empty, Shown } from "../states.js";
import { count, rate } from "../text.js";
import { axisTime, duration, fullTime, zone, zoneName } from "../time.js";
import { columnsOf, marksOf, spanOf } from "./ring-model.js";
import { STORY_LIMIT } from "./story.js";

const TABLE_ROWS = 20;
const HEIGHT_REM = 10;

export function Plots({ process, path }) {
  const query = { view: "ring", process, path };
  const view = useLive(query);
  const marks = marksOf(useLive({ view: "story", process, path, limit: STORY_LIMIT }).value, path);
  const [frozen, setFrozen] = useState(null);
  const shown = frozen ? { ...view, value: frozen, status: "ready", isOld: false } : view;
  const tools = html`<${Button} kind="quiet" icon=${frozen ? "right" : "suspended"} onClick=${() => setFrozen(frozen ? null : view.value)}>${frozen ? "Go on" : "Freeze"}<//><${JsonButton} query=${query} />`;
  return html`<${Section} title="Last minutes" aside=${tools}><${Shown} of=${shown} rows=${5} isEmpty=${({ points }) => points.length === 0}
    empty=${{ icon: "clock", title: "No points yet", text: "The console keeps points while a browser shows the member. The first ones come within seconds." }}>
    ${(ring) => html`<${Charts} ring=${ring} marks=${marks} isFrozen=${Boolean(frozen)} />`}<//><//>`;
}

function Charts({ ring, marks, isFrozen }) {
  const columns = useMemo(() => columnsOf(ring), [ring]);
  const name = zone.value;
  return html`<div class="plots"><${Plot} title="Queued" data=${[columns.at, columns.queued]} series=${[["queued", "--busy", "area"]]} format=${count} zone=${name} marks=${marks} />
      <${Plot} title="Messages per second" data=${[columns.at, columns.accepted, columns.handled, columns.failed]} series=${[["accepted", "--text-3", "dashed"], ["handled", "--accent", "line"], ["failed", "--error", "line"]]} format=${rate} zone=${name} marks=${marks} /></div>
    <p class="note">A point every ${duration(ring.every_ms * 1000)}, times in ${zoneName(name)}. Dashed lines upright: failures${isFrozen ? `, frozen at ${fullTime(ring.points.at(-1)?.at, name)}` : ""}.</p>
    <${PointsTable} points=${ring.points} />`;
}

/** The numbers of the plots, for people who do not see them. */
function PointsTable({ points }) {
  const [isOpen, setOpen] = useState(false);
  const newest = isOpen ? points.slice(-TABLE_ROWS).reverse() : [];
  return html`<details class="points" onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>The newest ${TABLE_ROWS} points as a table</summary>
    <div class="table-frame"><table class="table"><caption class="unseen">Points of the plots, the newest first</caption><thead><tr><th scope="col">Time</th><th scope="col" class="align-end">Queued</th><th scope="col" class="align-end">Accepted / s</th><th scope="col" class="align-end">Handled / s</th><th scope="col" class="align-end">Failed / s</th></tr></thead>
    <tbody>${newest.map((point) => html`<tr key=${point.at}><td data-title="Time"><${Time} at=${point.at} /></td><td data-title="Queued" class="align-end">${count(point.queued)}</td>
      <td data-title="Accepted / s" class="align-end">${rate(point.accepted_per_s)}</td><td data-title="Handled / s" class="align-end">${rate(point.handled_per_s)}</td><td data-title="Failed / s" class="align-end">${rate(point.failed_per_s)}</td></tr>`)}</tbody></table></div></details>`;
}

let library = null;

/** Loads uPlot and its style, once. */
function loadLibrary() {
  library ??= Promise.all([import("../vendor/uplot.js"), loadStyle("/assets/vendor/uplot.css")]).then(([module]) => module.default);
  return library;
}

function loadStyle(href) {
  return new Promise((resolve, reject) => {
    const link = document.createElement("link");
    Object.assign(link, { rel: "stylesheet", href, onload: resolve, onerror: reject });
    document.head.append(link);
  });
}

/** One plot. `series`: name, variable of its colour, and `line`, `dashed` or `area`. */
function Plot({ title, data, series, format, zone: name, marks }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [values, setValues] = useState(null);
  const [hasFailed, setFailed] = useState(false);
  const newest = useRef(data);
  newest.current = data;
  const shownMarks = useRef(marks);
  shownMarks.current = marks;
  useEffect(() => {
    // Kept here, because the reference may be empty when a promise below is done.
    const element = place.current;
    let isHere = element !== null;
    let observer = null;
    const make = (Library) => {
      if (!isHere) return;
      plot.current?.destroy();
      plot.current = new Library(optionsOf(element, series, format, name, setValues, shownMarks), newest.current, element);
    };
    loadLibrary().then((Library) => {
      if (!isHere) return;
      make(Library);
      observer = new ResizeObserver(() => plot.current?.setSize(sizeOf(element)));
      observer.observe(element);
    }, () => setFailed(true));
    const themes = [matchMedia("(prefers-color-scheme: dark)"), matchMedia("(forced-colors: active)")];
    const renew = () => void loadLibrary().then(make);
    themes.forEach((theme) => theme.addEventListener("change", renew));
    const chosen = new MutationObserver(renew);
    chosen.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      isHere = false;
      observer?.disconnect();
      chosen.disconnect();
      themes.forEach((theme) => theme.removeEventListener("change", renew));
      plot.current?.destroy();
      plot.current = null;
    };
  }, [name]);
  useEffect(() => plot.current?.setData(data), [data]);
  const at = values ?? data[0].length - 1;
  return html`<figure class="plot"><figcaption><span class="plot-title">${title}</span>
      ${series.map(([label, colour, form], index) => html`<span class="plot-key" key=${label}><span class=${`plot-line plot-${form}`} style=${{ color: `var(${colour})` }} aria-hidden="true"></span>${series.length > 1 && `${label} `}<span class="num">${format(data[index + 1][at])}</span></span>`)}
      <span class="plot-at num">${values === null ? "" : axisTime(new Date(data[0][at] * 1000), name)}</span></figcaption>
    ${hasFailed && html`<p class="note">The plot could not be loaded. The table below has its points.</p>`}
    <div class="plot-place" ref=${place} role="img" aria-label=${`Plot: ${title}. The table below has its points.`}></div></figure>`;
}

/** Draws an upright line at each failure. */
function drawMarks(plot, marks, colour) {
  const { ctx: canvas, bbox: { left, top, width, height } } = plot;
  canvas.save();
  canvas.strokeStyle = colour;
  canvas.lineWidth = devicePixelRatio;
  canvas.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  canvas.beginPath();
  for (const second of marks) {
    const x = plot.valToPos(second, "x", true);
    if (x < left || x > left + width) continue;
    canvas.moveTo(x, top);
    canvas.lineTo(x, top + height);
  }
  canvas.stroke();
  canvas.restore();
}

const sizeOf = (element) => ({ width: Math.max(120, element.clientWidth), height: Math.round(parseFloat(getComputedStyle(document.documentElement).fontSize) * HEIGHT_REM) });

/** A colour of the page as the canvas understands it. */
function colourOf(element, variable) {
  const before = element.style.color;
  element.style.color = `var(${variable})`;
  const colour = getComputedStyle(element).color;
  element.style.color = before;
  return colour;
}

function optionsOf(place, series, format, name, onCursor, marks) {
  const [text, line] = [colourOf(place, "--text-3"), colourOf(place, "--line")];
  const font = `${Math.round(parseFloat(getComputedStyle(document.documentElement).fontSize) * 0.786)}px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: text, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  return {
    ...sizeOf(place), legend: { show: false }, padding: [8, 26, 0, 0],
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: { key: "member" } },
    scales: { x: { range: (_, first, last) => spanOf(first, last) }, y: { range: (_, min, max) => [0, Math.max(1, max * 1.12)] } },
    axes: [
      { ...axis, space: 70, size: 30, values: (_, splits) => splits.map((second) => axisTime(new Date(second * 1000), name)) },
      { ...axis, size: 44, space: 28, values: (_, splits) => splits.map((number) => (Number.isInteger(number) ? count(number) : format(number))) },
    ],
    series: [{}, ...series.map(([label, colour, form]) => ({
      label, stroke: colourOf(place, colour), width: 1.5, points: { show: false }, dash: form === "dashed" ? [4, 3] : undefined,
      fill: form === "area" ? colourOf(place, "--plot-area") : undefined,
    }))],
    hooks: { setCursor: [({ cursor }) => onCursor(cursor.idx ?? null)], draw: [(plot) => drawMarks(plot, marks.current, colourOf(place, "--error"))] },
  };
}
