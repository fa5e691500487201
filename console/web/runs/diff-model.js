// The lines of a difference with their numbers, and the folds between them. Pure.

/** The lines that stay visible around a change. */
const CONTEXT = 3;

/** Fewer lines than these are not folded. */
const FOLD_MIN = 8;

/** Numbers the lines, and folds long parts that are the same. Returns parts with `kind`, `from`, `lines`. */
export function foldLines(lines) {
  const numbered = number(lines);
  const parts = [];
  let from = 0;
  while (from < numbered.length) {
    const isSame = numbered[from].kind === "same";
    let to = from;
    while (to < numbered.length && (numbered[to].kind === "same") === isSame) to += 1;
    if (isSame) addSame(parts, numbered, from, to);
    else parts.push({ kind: "changed", from, lines: numbered.slice(from, to) });
    from = to;
  }
  return parts;
}

function addSame(parts, lines, from, to) {
  const first = from === 0 ? from : from + CONTEXT;
  const last = to === lines.length ? to : to - CONTEXT;
  if (last - first < FOLD_MIN) {
    parts.push({ kind: "same", from, lines: lines.slice(from, to) });
    return;
  }
  if (first > from) parts.push({ kind: "same", from, lines: lines.slice(from, first) });
  parts.push({ kind: "folded", from: first, lines: lines.slice(first, last) });
  if (to > last) parts.push({ kind: "same", from: last, lines: lines.slice(last, to) });
}

function number(lines) {
  let before = 0;
  let after = 0;
  return lines.map(({ kind, text }) => {
    if (kind !== "added") before += 1;
    if (kind !== "removed") after += 1;
    return { kind, text, before: kind === "added" ? null : before, after: kind === "removed" ? null : after };
  });
}

/** Counts the changed lines: `2 added, 1 removed`. */
export function changesText(lines) {
  const count = (kind) => lines.filter((line) => line.kind === kind).length;
  const [added, removed] = [count("added"), count("removed")];
  if (added + removed === 0) return "no difference";
  return `${added} ${added === 1 ? "line" : "lines"} added, ${removed} removed`;
}
