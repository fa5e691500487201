// The points of a member as columns for plots. Pure.

/** A longer pause than this many steps is a gap in the line. */
const GAP_STEPS = 1.8;
/** The shortest time that a plot shows: one point alone has no span. */
const SPAN_MIN_S = 30;

/** Columns of a ring: seconds since 1970 and the numbers. A pause becomes a point without numbers. */
export function columnsOf({ every_ms: everyMs, points }) {
  const columns = { at: [], queued: [], accepted: [], handled: [], failed: [] };
  const add = (at, point) => {
    columns.at.push(at);
    columns.queued.push(point?.queued ?? null);
    columns.accepted.push(point?.accepted_per_s ?? null);
    columns.handled.push(point?.handled_per_s ?? null);
    columns.failed.push(point?.failed_per_s ?? null);
  };
  for (const point of points) {
    const at = Date.parse(point.at) / 1000;
    const before = columns.at.at(-1);
    if (Number.isNaN(at) || at <= before) continue;
    if (before !== undefined && (at - before) * 1000 > everyMs * GAP_STEPS) add((at + before) / 2, null);
    add(at, point);
  }
  return columns;
}

/** The times of the failures of a member, in seconds since 1970, for marks in plots. */
export function marksOf(story, path) {
  const failures = (story?.entries ?? []).filter((entry) => entry.kind === "failed" && entry.path === path);
  return failures.map(({ at }) => Date.parse(at) / 1000).filter((second) => !Number.isNaN(second));
}

/** The seconds from which to which a plot goes, for points from `first` to `last`; null: none. */
export function spanOf(first, last) {
  return first === null ? [0, SPAN_MIN_S] : [Math.min(first, last - SPAN_MIN_S), last];
}
