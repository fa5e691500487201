// Draws a graph with the positions of a run: SVG from the layout that Rust computed.
//
// The drawing moves and zooms by pointer, buttons and keys. Everything in it is also in the table
// beside it. A mark differs by its shape and its word, not only by its colour.

import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import {
  centred, edgePath, END, marksOf, moved, nameOf, NODES_MAX, notesOf, sentence, short, START, stateOf, whole, zoomed,
} from "./graph-model.js";
import { plural, visible } from "../text.js";
import { Button } from "../ui.js";

/** How far an arrow key moves, and how much one step enlarges. */
const STEP = 40;
const FACTOR = 1.25;

/** The mark of each state: a path in a box of 12 by 12, so that shapes differ without colours. */
const SHAPES = {
  visited: "M2 6.5 5 9.5 10.5 3",
  current: "M6 1.5a4.5 4.5 0 1 0 .01 0Z",
  waiting: "M2.5 1.5h7l-3.5 4.5 3.5 4.5h-7L6 6Z",
  failed: "M2.5 2.5l7 7M9.5 2.5l-7 7",
};

/** Shows a drawing. `selected` is the id of a node, `onSelect` gets the id that is chosen. */
export function GraphDrawing({ layout, marks, selected, onSelect, name }) {
  const [isAsked, setIsAsked] = useState(false);
  if (layout.nodes.length > NODES_MAX && !isAsked) {
    return html`<div class="graph-large">
      <p>This graph has ${plural(layout.nodes.length, "node")}. The table shows all of them; a drawing of this size takes a moment.</p>
      <${Button} onClick=${() => setIsAsked(true)}>Draw it<//>
    </div>`;
  }
  return html`<${Canvas} ...${{ layout, marks, selected, onSelect, name }} />`;
}

function Canvas({ layout, marks, selected, onSelect, name }) {
  const all = useMemo(() => whole(layout), [layout]);
  const [part, setPart] = useState(all);
  const svg = useRef(null);
  useEffect(() => setPart(all), [all]);
  useEffect(() => {
    if (selected && part.width < all.width) setPart((now) => centred(now, layout, selected));
  }, [selected]);
  useWheel(svg, layout, setPart);
  const drag = useDrag(svg, layout, part, setPart);
  const onKeyDown = (event) => {
    const next = keyed(event, part, layout, all);
    if (!next) return;
    event.preventDefault();
    setPart(next);
  };
  const enlarge = (factor) => () => setPart((now) => zoomed(now, layout, factor));
  return html`<div class="graph">
    <div class="graph-paper" tabindex="0" role="group" onKeyDown=${onKeyDown}
      aria-label="Drawing of the graph ${visible(name)}. Arrow keys move it, plus and minus zoom, zero shows all. The table has the same.">
      <svg ref=${svg} class="graph-svg" style=${{ height: `min(${Math.round(all.height * 1.1)}px, 72vh)` }} viewBox="${part.x} ${part.y} ${part.width} ${part.height}" role="img"
        aria-label=${visible(sentence(layout, marks))} ...${drag}>
        <defs><marker id="graph-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
          markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path class="graph-head" d="M0 0 8 4 0 8z" /></marker></defs>
        ${layout.edges.map((edge) => html`<${Edge} edge=${edge} marks=${marks} />`)}
        ${layout.nodes.map((node) => html`<${Node} node=${node} counts=${marksOf(marks, node.id)} isSelected=${node.id === selected} onSelect=${onSelect} />`)}
      </svg>
    </div>
    <div class="graph-tools">
      <${Button} onClick=${enlarge(FACTOR)} aria-label="Zoom in">+<//>
      <${Button} onClick=${enlarge(1 / FACTOR)} aria-label="Zoom out">−<//>
      <${Button} onClick=${() => setPart(all)}>Fit<//>
    </div>
  </div>`;
}

/** Returns the visible part after a key, or null if the key is not for the drawing. */
function keyed(event, part, layout, all) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const step = (STEP * part.width) / all.width;
  switch (event.key) {
    case "ArrowLeft": return moved(part, layout, -step, 0);
    case "ArrowRight": return moved(part, layout, step, 0);
    case "ArrowUp": return moved(part, layout, 0, -step);
    case "ArrowDown": return moved(part, layout, 0, step);
    case "+":
    case "=": return zoomed(part, layout, FACTOR);
    case "-": return zoomed(part, layout, 1 / FACTOR);
    case "0": return all;
    default: return null;
  }
}

/** Zooms with Ctrl and the wheel. The wheel alone scrolls the page. */
function useWheel(svg, layout, setPart) {
  useEffect(() => {
    const element = svg.current;
    const onWheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const point = inDrawing(element, event);
      setPart((now) => zoomed(now, layout, event.deltaY < 0 ? FACTOR : 1 / FACTOR, point));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [layout]);
}

function inDrawing(element, event) {
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(element.getScreenCTM().inverse());
  return { x: point.x, y: point.y };
}

/** Moves the drawing with the mouse. A finger scrolls the page. */
function useDrag(svg, layout, part, setPart) {
  const from = useRef(null);
  return {
    onPointerDown: (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      from.current = { x: event.clientX, y: event.clientY, part };
    },
    onPointerMove: (event) => {
      const start = from.current;
      if (!start || event.buttons === 0) return;
      if (Math.abs(event.clientX - start.x) + Math.abs(event.clientY - start.y) < 4) return;
      svg.current.setPointerCapture(event.pointerId);
      const scale = 1 / svg.current.getScreenCTM().a;
      setPart(moved(start.part, layout, (start.x - event.clientX) * scale, (start.y - event.clientY) * scale));
    },
    onPointerUp: () => {
      from.current = null;
    },
  };
}

function Edge({ edge, marks }) {
  const isPassed = marksOf(marks, edge.from).visited > 0 && stateOf(marksOf(marks, edge.to)) !== "";
  const middle = edge.points[Math.floor(edge.points.length / 2)];
  const previous = edge.points[Math.floor(edge.points.length / 2) - 1] ?? middle;
  return html`<g class="graph-edge ${edge.kind} ${isPassed ? "is-passed" : ""}">
    <path d=${edgePath(edge)} marker-end="url(#graph-head)"><title>${visible(edge.from)} to ${visible(edge.to)}</title></path>
    ${edge.label && middle ? html`<text class="graph-edge-label" x=${(middle[0] + previous[0]) / 2} y=${(middle[1] + previous[1]) / 2 + 3} text-anchor="middle">${visible(edge.label)}</text>` : null}
  </g>`;
}

function Node({ node, counts, isSelected, onSelect }) {
  const { x, y, width, height, id } = node;
  const centre = x + width / 2;
  const middle = y + height / 2;
  if (id === START || id === END) {
    return html`<g class="graph-round"><title>${nameOf(node)}</title>
      ${id === END ? html`<circle class="graph-ring" cx=${centre} cy=${middle} r=${height / 2} />` : null}
      <circle class="graph-dot" cx=${centre} cy=${middle} r=${height * 0.3} /></g>`;
  }
  const state = stateOf(counts);
  const [note] = notesOf(counts);
  const isStack = node.kind === "fan_out" || counts.current + counts.waiting > 1;
  return html`<g class="graph-node ${state} ${isSelected ? "is-selected" : ""}" onClick=${() => onSelect?.(isSelected ? null : id)}>
    <title>${visible(id)}${notesOf(counts).length > 0 ? `: ${notesOf(counts).join(", ")}` : ""}</title>
    ${isStack ? html`<rect class="graph-box is-behind" x=${x + 4} y=${y - 4} width=${width} height=${height} rx="8" />` : null}
    <rect class="graph-box" x=${x} y=${y} width=${width} height=${height} rx="8" />
    ${node.kind === "subgraph" ? html`<rect class="graph-inner" x=${x + 3} y=${y + 3} width=${width - 6} height=${height - 6} rx="6" />` : null}
    <text class="graph-label" x=${centre} y=${middle + (note ? -1 : 4)} text-anchor="middle">${visible(node.label || id)}</text>
    ${note ? html`<${Note} state=${state} text=${note} centre=${centre} y=${middle + 11} />` : null}
    <${Tokens} count=${counts.current + counts.waiting} x=${x} y=${middle} isWaiting=${counts.current === 0} />
  </g>`;
}

function Note({ state, text, centre, y }) {
  const left = centre - (text.length * 5.4 + 13) / 2;
  return html`<g class="graph-note">
    <path class="graph-shape ${state}" transform="translate(${left} ${y - 8.5}) scale(0.8)" d=${SHAPES[state] ?? ""} />
    <text x=${left + 13} y=${y}>${text}</text>
  </g>`;
}

/** The tokens at a node: one disc, with their number if there are several. */
function Tokens({ count, x, y, isWaiting }) {
  if (count === 0) return null;
  const text = count > 1 ? short(count) : "";
  const width = 14 + Math.max(0, text.length - 1) * 7;
  return html`<g class="graph-token ${isWaiting ? "is-waiting" : ""}">
    <rect x=${x - width / 2} y=${y - 7} width=${width} height="14" rx="7" />
    ${text ? html`<text x=${x} y=${y + 3.5} text-anchor="middle">${text}</text>` : null}
  </g>`;
}
