// A windowed list or tree: only the rows on the screen exist, however many there are.
//
// Invariants:
// 1. The list is one tab stop: exactly one row has `tabindex=0`.
// 2. The row with the focus exists, even while it is scrolled out of sight.
// 3. When rows appear or go above, the row with the focus, under the pointer, or else the first
//    visible one stays where it is on the screen.

import { classes, Component, html, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { rowsAt, scrollFor, spacerHeight, topAfter, topToShow } from "./window.js";

/** The height of a row, in the font size of the page: so it grows with the reader's setting. */
const ROW_REM = 1.9;
const SETTLE_MS = 160;
/** Rows are placed relative to every so-many-th row, so that their positions stay small and equal. */
const BASE_ROWS = 256;

/**
 * Draws a list. `total` rows; `rowAt(index)` returns a row, or undefined while it is not read.
 * `columns`: `key`, `title`, `cell(row)`, `width` (a CSS grid track), `align` (`end`), and `from`:
 * the width of the list, in rem, from which the column is shown. `keyOf(row)` names a row.
 * `tree`: `levelOf(row)`, `isOpen(row)` (undefined for leaves), `onToggle(row, open)`, `parentOf(row)`
 * (an index, or null), and `placeOf(row, index)` with `setsize` and `posinset` as far as known. `onWindow(first, end, top)` tells which
 * rows are needed and which one is at the top, `onEnter(row)` opens one, `onHold(isHeld)` tells whether the pointer or the focus is here.
 */
export function Grid(props) {
  const { label, columns, total, rowAt, keyOf, tree, onWindow, onEnter, onHold, toneOf, startAt = 0 } = props;
  const frame = useRef(null);
  const rowHeight = useRowHeight();
  const [, repaint] = useState(0);
  const at = useRef({ top: 0, scroll: 0, height: 600, width: 80, active: startAt, hasFocus: false, hover: null, anchor: null, hadSize: false });
  const view = { top: at.current.top, height: at.current.height, rowHeight, total };
  const { first, end } = rowsAt(view);
  const shownColumns = columns.filter(({ from = 0 }) => at.current.width >= from);
  const draw = () => repaint((turn) => turn + 1);
  const latest = useRef(null);
  latest.current = { tree, toneOf, onEnter };
  Object.assign(at.current, { isDrawing: true, drawn: { first, end } });

  useSize(frame, at, rowHeight, draw);
  useAnchor({ frame, at, view, rowAt, keyOf, first, end, draw });
  const topIndex = Math.floor(view.top / rowHeight);
  useEffect(() => onWindow?.(first, end, topIndex), [first, end, topIndex]);
  useEffect(() => {
    if (startAt > 0 && total > startAt) move(startAt, false);
  }, [startAt, total > startAt]);
  useLayoutEffect(() => {
    at.current.isDrawing = false;
    if (!at.current.hasFocus) return;
    const row = frame.current.querySelector(`[data-index="${at.current.active}"]`);
    if (row && row !== document.activeElement && !row.contains(document.activeElement)) row.focus({ preventScroll: true });
  });

  const settle = useRef(null);
  const onScroll = () => {
    const now = frame.current.scrollTop;
    const state = at.current;
    if (now === state.scroll) return;
    const before = state.scroll - state.top;
    state.top = topAfter({ ...view, top: state.top, before: state.scroll, now });
    state.scroll = now;
    clearTimeout(settle.current);
    settle.current = setTimeout(() => scrollTo(state.top), SETTLE_MS);
    const rows = rowsAt({ ...view, top: state.top });
    const { drawn } = state;
    if (rows.first !== drawn.first || rows.end !== drawn.end || Math.abs(state.scroll - state.top - before) > 0.5) draw();
  };
  const scrollTo = (top) => {
    const state = at.current;
    const scroll = scrollFor({ ...view, top });
    state.top = Math.max(0, top);
    if (Math.abs(scroll - frame.current.scrollTop) > 0.5) frame.current.scrollTop = scroll;
    state.scroll = frame.current.scrollTop;
    draw();
  };
  const move = (index, isFocus = true) => {
    const state = at.current;
    state.active = Math.max(0, Math.min(total - 1, index));
    state.hasFocus = isFocus || state.hasFocus;
    const headed = { ...view, height: view.height - rowHeight };
    scrollTo(topToShow({ ...headed, index: state.active }));
  };
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("a, button, input") && ["Enter", " "].includes(event.key)) return;
    if (keyPressed(event, { active: at.current.active, total, rowAt, tree, onEnter, move, page: Math.max(1, Math.floor(view.height / rowHeight) - 2) })) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  const tellHold = () => onHold?.(at.current.hasFocus || at.current.hover !== null);
  const onFocus = (event) => {
    const index = event.target.closest("[data-index]")?.dataset.index;
    at.current.hasFocus = true;
    if (index !== undefined && Number(index) !== at.current.active) {
      at.current.active = Number(index);
      draw();
    }
    tellHold();
  };
  const onBlur = (event) => {
    // A row that goes while it has the focus: the focus is given to its successor.
    if (at.current.isDrawing || frame.current.contains(event.relatedTarget)) return;
    at.current.hasFocus = false;
    tellHold();
  };
  const onPointer = (event) => {
    const before = at.current.hover;
    const index = event.type === "pointerleave" ? null : (event.target.closest("[data-index]")?.dataset.index ?? null);
    at.current.hover = index === null ? null : Number(index);
    if ((before === null) !== (index === null)) tellHold();
  };

  const active = Math.max(0, Math.min(total - 1, at.current.active));
  const indexes = [];
  for (let index = first; index < end; index += 1) indexes.push(index);
  if (total > 0 && (active < first || active >= end)) indexes[active < first ? "unshift" : "push"](active);
  const template = shownColumns.map(({ width = "minmax(0, 1fr)" }) => width).join(" ");
  const base = Math.floor(first / BASE_ROWS) * BASE_ROWS;
  const shift = { transform: `translateY(${base * rowHeight + at.current.scroll - at.current.top}px)` };
  return html`<div ref=${frame} class="grid" data-grid role=${tree ? "treegrid" : "grid"} aria-label=${label} aria-rowcount=${total + 1} aria-colcount=${shownColumns.length}
    onScroll=${onScroll} onKeyDown=${onKeyDown} onFocusIn=${onFocus} onFocusOut=${onBlur} onPointerOver=${onPointer} onPointerLeave=${onPointer}>
    <div class="grid-head" role="row" aria-rowindex="1" style=${{ gridTemplateColumns: template }}>
      ${shownColumns.map(({ key, title, align }) => html`<div role="columnheader" key=${key} class=${classes("cell", align && `align-${align}`)}>${title}</div>`)}</div>
    <div class="grid-rows" style=${{ height: `${spacerHeight(total, rowHeight)}px` }}><div role="rowgroup" class="grid-shift" style=${shift}>
      ${indexes.map((index) => html`<${Row} key=${index} index=${index} row=${rowAt(index)} y=${(index - base) * rowHeight} height=${rowHeight} template=${template}
        columns=${shownColumns} columnsKey=${columns} latest=${latest} isActive=${index === active} />`)}
    </div></div></div>`;
}

/** What a row is drawn from. Others of its properties are read when something happens. */
const DRAWN = ["index", "row", "y", "height", "template", "columnsKey", "isActive"];

/** One row: its cells, or their places while it is not read. */
class Row extends Component {
  shouldComponentUpdate(next) {
    return DRAWN.some((name) => next[name] !== this.props[name]);
  }

  render({ index, row, y, height, template, columns, latest, isActive }) {
    const style = { transform: `translateY(${y}px)`, height: `${height}px`, gridTemplateColumns: template };
    const common = { role: "row", "data-index": index, tabIndex: isActive ? 0 : -1, "aria-rowindex": index + 2, style };
    if (row === undefined) {
      return html`<div ...${common} class="row row-waiting" aria-busy="true">${columns.map(({ key }, place) => html`<div role="gridcell" class="cell" key=${key}>
        ${place === 0 ? html`<span class="unseen">Loading</span><span class="bone" aria-hidden="true"></span>` : ""}</div>`)}</div>`;
    }
    const { tree, toneOf } = latest.current;
    const open = tree?.isOpen(row);
    const level = tree ? { "aria-level": tree.levelOf(row), "aria-expanded": open === undefined ? undefined : String(open), ...placeOf(tree, row, index) } : {};
    return html`<div ...${common} ...${level} class=${classes("row", toneOf?.(row) && `row-${toneOf(row)}`)} onDblClick=${() => latest.current.onEnter?.(row)}>
      ${columns.map(({ key, cell, align }) => html`<div role="gridcell" key=${key} class=${classes("cell", align && `align-${align}`)}>${cell(row, index)}</div>`)}</div>`;
  }
}

/** The place of a row among its siblings, as far as it is known. */
function placeOf(tree, row, index) {
  const { setsize, posinset } = tree.placeOf(row, index);
  return { "aria-setsize": setsize, "aria-posinset": posinset };
}

/** Acts on a key. Returns false if the key means nothing here. */
function keyPressed({ key }, { active, total, rowAt, tree, onEnter, move, page }) {
  const row = rowAt(active);
  const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page };
  if (key in steps) return move(active + steps[key]), true;
  if (key === "Home") return move(0), true;
  if (key === "End") return move(total - 1), true;
  if (row === undefined) return false;
  if (key === "Enter" && onEnter) return onEnter(row), true;
  if (!tree) return false;
  const open = tree.isOpen(row);
  if (key === " " && open !== undefined) return tree.onToggle(row, !open), true;
  if (key === "ArrowRight" || key === "l") {
    if (open === false) return tree.onToggle(row, true), true;
    if (open === true) return move(active + 1), true;
  }
  if (key === "ArrowLeft" || key === "h") {
    if (open === true) return tree.onToggle(row, false), true;
    const parent = tree.parentOf(row);
    if (parent !== null) return move(parent), true;
  }
  return false;
}

function useRowHeight() {
  const [height, setHeight] = useState(() => rowHeightNow());
  useEffect(() => {
    const measure = () => setHeight(rowHeightNow());
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  return height;
}

function rowHeightNow() {
  return Math.round(parseFloat(getComputedStyle(document.documentElement).fontSize) * ROW_REM);
}

/** Follows the size of the list. */
function useSize(frame, at, rowHeight, draw) {
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => {
      const rem = rowHeight / ROW_REM;
      const { clientHeight: height, clientWidth } = frame.current;
      const width = clientWidth / rem;
      if (height === at.current.height && width === at.current.width) return;
      Object.assign(at.current, { height, width });
      draw();
    });
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, [rowHeight]);
}

/** Keeps one row at its place on the screen when rows appear or go above it. */
function useAnchor({ frame, at, view, rowAt, keyOf, first, end, draw }) {
  useLayoutEffect(() => {
    const state = at.current;
    const { anchor } = state;
    if (anchor && anchor.total !== view.total) {
      for (let index = first; index < end; index += 1) {
        const row = rowAt(index);
        if (row === undefined || keyOf(row) !== anchor.key) continue;
        const shift = index - anchor.index;
        if (shift !== 0 && state.top > 0) {
          state.top = Math.max(0, state.top + shift * view.rowHeight);
          frame.current.scrollTop = scrollFor({ ...view, top: state.top });
          state.scroll = frame.current.scrollTop;
        }
        if (shift !== 0 && state.hasFocus && anchor.isFocus) state.active = index;
        if (shift !== 0) draw();
        break;
      }
    }
    const isFocusSeen = state.hasFocus && state.active >= first && state.active < end;
    const index = isFocusSeen ? state.active : (state.hover ?? Math.ceil(state.top / view.rowHeight));
    const row = rowAt(index);
    if (row !== undefined) state.anchor = { key: keyOf(row), index, isFocus: isFocusSeen, total: view.total };
  });
}
