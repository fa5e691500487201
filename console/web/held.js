// Lists that are sorted by something that changes: the order stays while the reader's pointer or
// focus is in the list, and can be renewed on request.

import { html, useCallback, useRef, useState } from "./lib.js";
import { Button } from "./ui.js";
import { heldOrder } from "./window.js";

/**
 * Keeps the order of rows while they are held. Returns `rows`, `isHeld` (the order differs from the
 * newest one), `hold(isHeld)` and `renew()`.
 */
export function useHeldRows(rows, keyOf, reset) {
  const [isHeld, hold] = useState(false);
  const [, repaint] = useState(0);
  const shown = useRef({ keys: [], reset });
  const keys = rows.map(keyOf);
  const isSame = shown.current.reset === reset;
  shown.current = { keys: isHeld && isSame ? heldOrder(keys, shown.current.keys) : keys, reset };
  const byKey = new Map(rows.map((row) => [keyOf(row), row]));
  const renew = useCallback(() => {
    shown.current = { keys: [], reset: null };
    repaint((turn) => turn + 1);
  }, []);
  const isChanged = shown.current.keys.some((key, index) => key !== keys[index]);
  return { rows: shown.current.keys.map((key) => byKey.get(key)), isHeld: isHeld && isChanged, hold, renew };
}

/** Says that the order is kept, and renews it on request. */
export function HeldNote({ held }) {
  if (!held.isHeld) return null;
  return html`<span class="held" role="status">The order is kept while you are here. <${Button} kind="quiet" onClick=${held.renew}>Sort now<//></span>`;
}

/** Properties of an element that holds the order while the pointer or the focus is in it. */
export function holdProps(hold) {
  return {
    onPointerEnter: () => hold(true),
    onPointerLeave: (event) => hold(event.currentTarget.contains(document.activeElement)),
    onFocusIn: () => hold(true),
    onFocusOut: (event) => event.currentTarget.contains(event.relatedTarget) || hold(event.currentTarget.matches(":hover")),
  };
}
