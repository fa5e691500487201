// What the page takes from the vendored modules, in one place.

import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { Component, Fragment, createContext, h, render } from "./vendor/preact.js";
export {
  useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState,
} from "./vendor/hooks.js";
export { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "./vendor/signals.js";

/** Makes elements of a template: html`<p class="note">${text}</p>`. Strings become text, never HTML. */
export const html = htm.bind(h);

/** Joins class names; false, null and "" are left out. */
export function classes(...names) {
  return names.filter(Boolean).join(" ");
}
