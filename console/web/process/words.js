// How members are described: what they do, how they are, and the commands about them. Pure.

import { command } from "../runs/shell.js";
import { duration } from "../time.js";
import { count, words } from "../text.js";

const STATES = {
  open: ["quiet", "idle", "open"], starting: ["busy", "right", "starting"], idle: ["quiet", "idle", "idle"],
  ready: ["busy", "right", "ready"], running: ["busy", "right", "running"], waiting: ["quiet", "clock", "waiting"],
  handling: ["busy", "right", "handling"], in_hook: ["busy", "right", "in a hook"], suspended: ["warning", "suspended", "suspended"],
  waiting_to_restart: ["warning", "restarting", "restarts"], restarting: ["warning", "restarting", "restarting"],
  stopping: ["warning", "stopped", "stopping"], ended: ["quiet", "stopped", "ended"],
};

/** A handler that runs for longer is worth a look. */
const SLOW_US = 5e6;

/** What a member does: `tone`, `icon`, `text`. */
export function activityOf({ activity }) {
  const { state, for_us: forUs, in_us: inUs } = activity ?? {};
  const [tone, icon, text] = STATES[state] ?? ["quiet", "info", words(state ?? "unknown")];
  if (state === "waiting_to_restart") return { tone, icon, text: inUs ? `restarts in ${duration(inUs)}` : "restarts now" };
  const isTimed = forUs >= 1e6 && ["handling", "in_hook", "suspended", "stopping", "waiting"].includes(state);
  const isSlow = forUs >= SLOW_US && ["handling", "in_hook", "stopping"].includes(state);
  return { tone: isSlow ? "warning" : tone, icon: isSlow ? "warning" : icon, text: isTimed ? `${text} for ${duration(forUs)}` : text };
}

/** A mailbox is filling up. */
export function isFilling(actor) {
  return Boolean(actor?.capacity) && actor.queued >= actor.capacity * 0.8;
}

/** How a member is, if it calls for a look: `tone` and `text`; else null. */
export function concernOf(member) {
  const { tone, text } = activityOf(member);
  if (tone === "warning") return { tone, text };
  const { actor, restarts } = member;
  if (actor && actor.capacity && actor.queued >= actor.capacity) return { tone: "warning", text: "mailbox full" };
  if (isFilling(actor)) return { tone: "warning", text: "mailbox fills up" };
  if (restarts?.used > 0) return { tone: "warning", text: restartsText(restarts) };
  return null;
}

/** The restart limit in words: 2 of 3 in 5 s. */
export function restartsText(restarts) {
  if (!restarts) return "";
  const { used, allowed, window_us: windowUs } = restarts;
  if (allowed === null || allowed === undefined) return count(used);
  return `${count(used)} of ${count(allowed)}${windowUs ? ` in ${duration(windowUs)}` : ""}`;
}

/** The restart limit in a column: 2 of 3. */
export function restartsShort(restarts) {
  if (!restarts) return "";
  return restarts.allowed === null || restarts.allowed === undefined ? count(restarts.used) : `${count(restarts.used)} of ${count(restarts.allowed)}`;
}

/** What is queued: 17 of 1,024. */
export function queuedText(actor) {
  if (!actor) return "";
  return actor.capacity ? `${count(actor.queued)} of ${count(actor.capacity)}` : count(actor.queued);
}

const WAITS = {
  answer: "asks", room: "waits for room at", exit: "waits for the exit of", children: "waits for its children", tasks: "waits for its tasks",
  result: "waits for a result of", slot: "waits for a slot of",
};

/** How a member waits: the verb before the path. */
export function waitText({ kind }) {
  return WAITS[kind] ?? `waits (${words(kind)}) for`;
}

/** A command about a member, or null if the process has no socket. */
export function memberCommand(process, verb, path) {
  return process?.target ? command("pleach", verb, process.target, path) : null;
}

/** The kinds of members whose messages can be counted. */
export const hasMailbox = (member) => Boolean(member.actor);
