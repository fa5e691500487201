// Views of runs that stay up to date: one that may be too large for the stream, and lists that do
// not move under the hand of the reader.

import { useEffect, useMemo, useRef, useState } from "../lib.js";
import { carriedOut } from "../act.js";
import { textOf } from "../hub.js";
import { useLive, useOnce } from "../live.js";

/** How often a view is read again that is too large for the stream. */
const LARGE_MS = 5_000;

/** Reads a view again after every action that was carried out here. */
function useReloadAfterActions(once) {
  const count = carriedOut.value;
  const before = useRef(count);
  useEffect(() => {
    if (before.current === count) return;
    before.current = count;
    once.reload();
  }, [count]);
}

/** Shows a view live, whatever its size. Returns what `useOnce` returns. */
export function useFresh(query) {
  const once = useOnce(query);
  const live = useLive(query);
  const isLarge = live.error?.code === "too_large";
  useReloadAfterActions(once);
  useEffect(() => {
    if (!isLarge) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && once.reload(), LARGE_MS);
    return () => clearInterval(timer);
  }, [isLarge, textOf(query)]);
  const isNewer = live.value && (!once.at || live.at >= once.at);
  if (isLarge || (!live.value && !live.error)) return once;
  return isNewer || once.status !== "ready" ? { ...live, reload: once.reload } : { ...once, isOld: live.isOld || once.isOld };
}

/**
 * Shows a page of a list. Rows change where they are; new ones are counted in `fresh` until
 * `showFresh` is called; those that are not in the list any more are in `gone`. `rowsOf` and
 * `withRows` read and replace the rows of an answer. Without `isLive` it is read once.
 */
export function useHeldList(query, { isLive, rowsOf, withRows, keyOf }) {
  const once = useOnce(query);
  const live = useLive(isLive ? query : null);
  const text = textOf(query);
  const [base, setBase] = useState({ text: null, value: null });
  useReloadAfterActions(once);
  const held = base.text === text ? base.value : once.value;
  const newest = isLive ? live.value : null;
  const result = useMemo(() => {
    if (!held || !newest) return { value: held, fresh: 0, gone: new Set() };
    const rows = new Map(rowsOf(newest).map((row) => [keyOf(row), row]));
    const shown = new Set(rowsOf(held).map(keyOf));
    const gone = newest.next ? [] : [...shown].filter((key) => !rows.has(key));
    const value = withRows(held, rowsOf(held).map((row) => rows.get(keyOf(row)) ?? row));
    return { value, fresh: [...rows.keys()].filter((key) => !shown.has(key)).length, gone: new Set(gone) };
  }, [held, newest]);
  useEffect(() => setBase({ text: null, value: null }), [once.value]);
  const showFresh = () => setBase({ text, value: newest });
  useEffect(() => {
    if (held && newest && rowsOf(held).length === 0 && result.fresh > 0) showFresh();
  }, [held, newest]);
  const isOld = once.isOld || (isLive && live.isOld && live.error?.code !== "too_large" && live.status !== "loading");
  return { ...once, ...result, isOld, at: newest ? live.at : once.at, error: once.error ?? (isOld ? live.error : null), showFresh };
}
