// What the statuses, actions and fits of runs are called, and which shape each has. Pure.

/** For each status: the tone and the shape of its badge. No two shapes are the same. */
export const STATUS = {
  running: { tone: "busy", icon: "right" },
  waiting: { tone: "waiting", icon: "waiting" },
  stuck: { tone: "error", icon: "lock" },
  finished: { tone: "ok", icon: "ok" },
  failed: { tone: "error", icon: "error" },
  cancelled: { tone: "quiet", icon: "stopped" },
  compensated: { tone: "quiet", icon: "restarting" },
  "compensation failed": { tone: "error", icon: "warning" },
};

/** Returns the tone and shape of a status. An unknown one is shown with its word. */
export function statusLook(status) {
  return STATUS[status] ?? { tone: "quiet", icon: "info" };
}

/** Returns whether a run is over: only a rewind continues it. */
export function hasEnded(status) {
  return ["finished", "failed", "cancelled", "compensated", "compensation failed"].includes(status);
}

/** What a deploy check says about a group of runs: whether they are served, and why not. */
const FITS = {
  served: [true, "served as they are"],
  migrated: [true, "served after a migration"],
  changes_course: [true, "served; a node that they are at has other edges or another policy"],
  unknown_graph: [false, "no graph has this name"],
  unknown_fingerprint: [false, "the graph has other nodes or edges"],
  newer_schema: [false, "their schema is newer than that of the program"],
  no_schema_migration: [false, "no migrations lead from their schema to that of the program"],
  no_shape_migration: [false, "the migrations accept no other shape of the graph"],
  missing_node: [false, "they are at a node that the graph does not have any more"],
  newer_format: [false, "a newer version of the library wrote them"],
  damaged: [false, "their stored bytes are damaged"],
  stuck: [false, "they could not be driven repeatedly, and are set aside"],
};

/** Returns `isServed` and `text` of a fit. */
export function fitOf(fit) {
  const [isServed, text] = FITS[fit] ?? [false, String(fit).replaceAll("_", " ")];
  return { isServed, text, isChange: fit === "changes_course" || fit === "migrated" };
}

/** The actions on a run, in the order in which they are offered. */
export const ACTIONS = [
  { kind: "retry", word: "Retry", about: "continues at the node that failed" },
  { kind: "unstick", word: "Unstick", about: "lets workers claim it again" },
  { kind: "pause", word: "Pause", about: "no further node starts" },
  { kind: "continue", word: "Continue", about: "a paused run goes on" },
  { kind: "fork", word: "Fork…", about: "starts a new run from a record, with an edited state" },
  { kind: "rewind", word: "Rewind…", about: "continues this run after an earlier record" },
  { kind: "signal", word: "Signal…", about: "sends a signal" },
  { kind: "cancel", word: "Cancel…", about: "ends it permanently" },
  { kind: "delete", word: "Delete…", about: "removes it with its log" },
];

/** Returns the actions that make sense for a run now; the first is the one that helps. */
export function actionsOf(run) {
  const ended = hasEnded(run.status);
  const fits = {
    retry: run.status === "failed" || run.status === "compensation failed",
    unstick: run.status === "stuck",
    pause: !ended && !run.is_paused && run.status !== "stuck",
    continue: Boolean(run.is_paused) && !ended,
    fork: true,
    rewind: true,
    signal: !ended,
    cancel: !ended,
    delete: ended || run.status === "stuck",
  };
  return ACTIONS.filter(({ kind }) => fits[kind]);
}

/** The actions that can be ordered for many runs, and the statuses for which each makes sense. */
export const BULK_ACTIONS = [
  { kind: "retry", word: "Retry", statuses: ["failed", "compensation failed"] },
  { kind: "unstick", word: "Unstick", statuses: ["stuck"] },
  { kind: "pause", word: "Pause", statuses: ["running", "waiting"] },
  { kind: "continue", word: "Continue", statuses: ["running", "waiting"] },
  { kind: "cancel", word: "Cancel", statuses: ["running", "waiting", "stuck"] },
  { kind: "delete", word: "Delete", statuses: ["finished", "failed", "cancelled", "compensated", "compensation failed"] },
];
