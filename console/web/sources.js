// What this console shows: processes and stores, and which of them are chosen in the URL.

import { computed, signal } from "./lib.js";
import { getConsole } from "./api.js";
import { place } from "./router.js";

/** The answer of `/api/console`, or null before it. */
export const shown = signal(null);

/** Why it could not be read the last time, or null. */
export const shownError = signal(null);

/** How often, and how soon, the names of processes that were not asked yet are read again. */
const [NAME_TRIES, NAME_WAIT] = [5, 1500];

/** Reads again what the console shows. */
export async function readConsole(tries = NAME_TRIES) {
  try {
    const answer = await getConsole();
    const isNew = answer.processes.some(({ name, problem }) => !name && !problem);
    if (isNew && tries > 0) setTimeout(() => void readConsole(tries - 1), NAME_WAIT);
    shown.value = { ...answer, processes: answer.processes.map((one) => ({ ...one, name: one.name ?? one.target?.split("/").at(-1) ?? "process" })) };
    shownError.value = null;
  } catch (error) {
    shownError.value = error;
  }
}

const chosen = (list, name) => computed(() => {
  const all = shown.value?.[list] ?? [];
  const key = place.value.params.get(name);
  return (key ? all.find((source) => source.key === key) : all[0]) ?? null;
});

/** The chosen process, or null if there is none. */
export const process = chosen("processes", "process");

/** The chosen store, or null if there is none. */
export const store = chosen("stores", "store");

/** The source with a key, or null. */
export function sourceOf(key) {
  const { processes = [], stores = [] } = shown.value ?? {};
  return [...processes, ...stores].find((source) => source.key === key) ?? null;
}

/** True if a key is that of a process. */
export function isProcess(key) {
  return (shown.value?.processes ?? []).some((source) => source.key === key);
}
