// Which rows of a long list are on the screen. Pure.
//
// Browsers limit the height of an element, so a very long list is scaled: its scroll bar covers all
// rows, while the wheel and the keys still move by rows.

/** The tallest element that every browser draws. */
export const HEIGHT_MAX = 8_000_000;

/** The height of the element that scrolls, for a list. */
export function spacerHeight(total, rowHeight) {
  return Math.min(total * rowHeight, HEIGHT_MAX);
}

/** The largest position of the first pixel that is shown. */
function topMax({ total, rowHeight, height }) {
  return Math.max(0, total * rowHeight - height);
}

/**
 * The position in the list after the element has scrolled from `before` to `now`. In a scaled list
 * a step below one page moves by as many pixels, and a longer one is a jump of the scroll bar.
 */
export function topAfter({ top, before, now, total, rowHeight, height }) {
  const max = topMax({ total, rowHeight, height });
  if (total * rowHeight <= HEIGHT_MAX) return Math.min(now, max);
  const end = HEIGHT_MAX - height;
  if (now <= 0) return 0;
  if (now >= end) return max;
  const step = now - before;
  if (Math.abs(step) <= height) return Math.max(0, Math.min(max, top + step));
  return (now / end) * max;
}

/** Where the element has to be scrolled to for a position in the list. */
export function scrollFor({ top, total, rowHeight, height }) {
  const max = topMax({ total, rowHeight, height });
  const wanted = Math.max(0, Math.min(max, top));
  if (total * rowHeight <= HEIGHT_MAX) return wanted;
  return max === 0 ? 0 : (wanted / max) * (HEIGHT_MAX - height);
}

/** The first row to draw and the one after the last, with some rows more on both sides. */
export function rowsAt({ top, height, rowHeight, total, more = 8 }) {
  const first = Math.max(0, Math.floor(top / rowHeight) - more);
  const end = Math.min(total, Math.ceil((top + height) / rowHeight) + more);
  return { first: Math.min(first, end), end };
}

/** The position that shows a row, changed as little as possible. */
export function topToShow({ top, index, height, rowHeight }) {
  const begin = index * rowHeight;
  if (begin < top) return begin;
  if (begin + rowHeight > top + height) return begin + rowHeight - height;
  return top;
}

/** The pieces of a list, of `size` rows each, that cover the rows from `first` to `end`. */
export function piecesOf({ first, end, size, total }) {
  const pieces = [];
  for (let at = Math.floor(first / size) * size; at < Math.min(end, total); at += size) pieces.push(at);
  if (pieces.length === 0) pieces.push(0);
  return pieces;
}

/**
 * Keeps rows in the order in which they are shown: known rows stay where they are, rows that went
 * leave their place to the next one, and new rows are added at the end.
 */
export function heldOrder(keys, shown) {
  const present = new Set(keys);
  const kept = shown.filter((key) => present.has(key));
  const known = new Set(kept);
  return [...kept, ...keys.filter((key) => !known.has(key))];
}
