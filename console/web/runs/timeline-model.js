// The records of a run as a page shows them: folded by node and by branch. Pure.
//
// A page has the newest record first. Neighbours of one visit become one fold. Between two records
// outside of any fan-out, all records of branches become one fold, with a fold for each branch in
// it: a fan-out of a thousand branches is one line.

/** The number of the branch in which the undo of a node runs. */
const UNDO_BRANCH = 4294967295;

/** What each kind of record means, in words. */
export const KINDS = {
  start: "started", step: "completed", arrive: "branch ended", join: "merged", effect: "effect completed",
  started: "effect started", attempt: "attempt failed", wait: "waits", wake: "answered or due", undo: "undone",
  rewind: "rewound", end: "ended", damaged: "cannot be read",
};

/** Returns whether a record tells of a failure, or is damaged. */
export function isFailure(record) {
  return Boolean(record.failure) || record.kind === "attempt" || record.kind === "damaged";
}

/** Returns a branch in words: `branch 3`, `branch 3 › 1`, `undo`. */
export function branchText(branch) {
  if (!branch || branch.length === 0) return "";
  const parts = branch.map((number) => (number === UNDO_BRANCH ? "undo" : String(number)));
  return parts.length === 1 && parts[0] === "undo" ? "undo" : `branch ${parts.join(" › ")}`;
}

/** Returns where a token goes on, in words. */
export function placeText(place) {
  if (!place) return "";
  const { kind, node } = place;
  switch (kind) {
    case "node": return node;
    case "router": return `router of ${node}`;
    case "fan_out": return `fan-out of ${node}`;
    case "join": return `join ${node}`;
    case "failed": return `failed at ${node}`;
    case "end": return "the end";
    default: return "another place";
  }
}

/** Returns what a record says, in words. */
export function recordText(record) {
  if (record.damage) return record.damage;
  if (record.failure?.reason) return record.failure.reason;
  if (record.next) return `then ${placeText(record.next)}`;
  if (record.part_of) return `part of record ${record.part_of}`;
  return "";
}

/** Folds records, the newest first. Returns folds with `key`, `kind` (`visit`, `fan_out`), `records`. */
export function fold(records) {
  const folds = [];
  for (const record of records) {
    const last = folds.at(-1);
    const kind = record.branch?.length > 0 ? "fan_out" : "visit";
    const isSame = last && last.kind === kind && (kind === "fan_out" || isSameVisit(last.records.at(-1), record));
    if (isSame) last.records.push(record);
    else folds.push({ kind, records: [record] });
  }
  return folds.map((part) => summary(part));
}

/** Whether two neighbours belong to one visit of a node. The first is the newer one. */
function isSameVisit(newer, older) {
  if (newer.node !== older.node || !newer.node) return false;
  // A completed visit ends the one before it.
  return !["step", "arrive", "join", "end", "rewind"].includes(older.kind) && newer.epoch === older.epoch;
}

function summary({ kind, records }) {
  const oldest = records.at(-1);
  const newest = records[0];
  return {
    key: `${kind}-${oldest.record}`,
    kind,
    records,
    node: kind === "visit" ? newest.node : "",
    from: oldest.record,
    to: newest.record,
    at: newest.at,
    failures: records.filter(isFailure).length,
    kinds: countBy(records, (record) => record.kind),
    branches: kind === "fan_out" ? new Set(records.map((record) => record.branch.join("."))).size : 0,
  };
}

/** Folds the records of a fan-out by branch: the branches with failures first, then by number. */
export function byBranch(records) {
  const branches = new Map();
  for (const record of records) {
    const key = record.branch.join(".");
    if (!branches.has(key)) branches.set(key, []);
    branches.get(key).push(record);
  }
  const folds = [...branches.values()].map((own) => ({ ...summary({ kind: "branch", records: own }), branch: own[0].branch }));
  return folds.sort((a, b) => b.failures - a.failures || compareBranches(a.branch, b.branch));
}

/** Counts the records of a fan-out by node, in the order of the oldest record of each. */
export function byNode(records) {
  return [...countBy(records.toReversed().filter((record) => record.node), (record) => record.node)]
    .map(([node, count]) => ({ node, count }));
}

function compareBranches(a, b) {
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const difference = (a[at] ?? -1) - (b[at] ?? -1);
    if (difference !== 0) return difference;
  }
  return 0;
}

function countBy(items, keyOf) {
  const counts = new Map();
  for (const item of items) counts.set(keyOf(item), (counts.get(keyOf(item)) ?? 0) + 1);
  return counts;
}

/** Returns what happened in a fold in words: `completed, 2 attempts failed`. */
export function foldText(folded) {
  const parts = [];
  for (const [kind, count] of folded.kinds) {
    const text = KINDS[kind] ?? kind;
    parts.push(count === 1 ? text : `${count} × ${text}`);
  }
  return parts.join(", ");
}

/**
 * Searches the first failure of a run in pages, from the oldest record on.
 * `page(from)` returns records with the oldest first, and `next`. Stops after `pages` pages and
 * returns `next`, so that a person decides whether to search on.
 */
export async function firstFailure(page, from, pages) {
  let searched = 0;
  let next = from;
  for (let count = 0; count < pages && next !== null && next !== undefined; count += 1) {
    const { records, next: following } = await page(next);
    const at = records.findIndex(isFailure);
    if (at >= 0) return { record: records[at].record, searched: searched + at + 1, next: null };
    searched += records.length;
    next = following;
  }
  return { record: null, searched, next: next ?? null };
}
