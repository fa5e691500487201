// The story of a member as episodes: a failure, what was decided, and what became of it. Pure.

const BEGINS = new Set(["failed"]);
const ENDS = new Set(["restarted", "gave_up", "ended", "resumed"]);
const FOLLOWS = new Set(["decided", "unhandled", "suspended", ...ENDS]);

/**
 * Groups entries, which come newest first, into episodes, newest first. An episode has `seq`, `at`,
 * `path`, `failure` (the entry that began it, or null), `decisions`, `outcomes`, and `also`: paths
 * that went down with it. An entry that belongs to no failure is an episode of its own.
 */
export function episodesOf(entries) {
  const episodes = [];
  const open = new Map();
  const begin = (entry, failure) => {
    const episode = { seq: entry.seq, at: entry.at, path: entry.path, failure, decisions: [], outcomes: [] };
    episodes.push(episode);
    return episode;
  };
  for (const entry of [...entries].reverse()) {
    if (BEGINS.has(entry.kind)) open.set(entry.path, begin(entry, entry));
    else (FOLLOWS.has(entry.kind) && followed(open, entry)) || begin(entry, null).outcomes.push(entry);
  }
  return episodes.reverse();
}

/** Adds an entry to the episode that it belongs to. Returns false if there is none. */
function followed(open, entry) {
  const { kind, path } = entry;
  const episode = open.get(path) ?? openAt(open, entry);
  if (!episode) return false;
  if (kind === "decided") episode.decisions.push(entry);
  else episode.outcomes.push(entry);
  if (ENDS.has(kind) && path === episode.path) open.delete(path);
  return true;
}

/** The newest open episode in which this supervisor decided, or which this failure began. */
function openAt(open, { kind, path, decision, failure }) {
  const all = [...open.values()].reverse();
  if (failure?.origin) return all.find((episode) => episode.path === failure.origin);
  if (kind === "gave_up" || decision) return all.find(({ decisions }) => decisions.some((made) => made.decision?.supervisor === path));
  return undefined;
}

/** How much of the restart limit a decision used: `used`, `limit`, and whether it was exceeded. */
export function limitOf({ restarts, limit } = {}) {
  if (restarts === null || restarts === undefined || limit === null || limit === undefined) return null;
  return { used: restarts, limit, isExceeded: restarts > limit };
}

/** How an episode ended, in a word for its mark: `restarted`, `gave_up`, `stopped`, `resumed`, `open`. */
export function endOf({ decisions, outcomes }) {
  const kinds = new Set(outcomes.map(({ kind }) => kind));
  if (kinds.has("gave_up")) return "gave_up";
  if (kinds.has("restarted")) return "restarted";
  if (kinds.has("ended")) return "stopped";
  const directive = String(decisions.at(-1)?.decision?.directive ?? "").toLowerCase();
  if (directive === "resume") return "resumed";
  return "open";
}
