// The one formatter of times: for text, axes and files. Pure, but for the chosen zone.
//
// The zone is always named. UTC is the default, because logs and other people use it; the zone of
// the device can be chosen, and is kept in the browser only.

import { signal } from "./lib.js";

const KEY = "pleach.zone";

/** `utc` or `local`. */
export const zone = signal(readZone());

function readZone() {
  try {
    return globalThis.localStorage?.getItem(KEY) === "local" ? "local" : "utc";
  } catch {
    return "utc";
  }
}

/** Chooses the zone. */
export function chooseZone(name) {
  zone.value = name;
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // Not kept; it holds for this page.
  }
}

const formats = new Map();

/** The parts of a time in a zone, as texts with leading zeros. */
function partsOf(date, name) {
  if (name === "utc") {
    const text = date.toISOString();
    return { day: text.slice(0, 10), time: text.slice(11, 19), milliseconds: text.slice(20, 23), zone: "UTC" };
  }
  const timeZone = typeof name === "string" && name !== "local" ? name : undefined;
  if (!formats.has(name)) {
    formats.set(name, new Intl.DateTimeFormat("en-GB", {
      timeZone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
      second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23", timeZoneName: "shortOffset",
    }));
  }
  const parts = Object.fromEntries(formats.get(name).formatToParts(date).map(({ type, value }) => [type, value]));
  return {
    day: `${parts.year}-${parts.month}-${parts.day}`,
    time: `${parts.hour}:${parts.minute}:${parts.second}`,
    milliseconds: parts.fractionalSecond,
    zone: parts.timeZoneName.replace("GMT", "UTC"),
  };
}

/** Reads an RFC 3339 text, microseconds since 1970 (a number), or a `Date`. Null if it is none. */
export function dateOf(at) {
  if (at === null || at === undefined || at === "") return null;
  const date = at instanceof Date ? at : typeof at === "number" ? new Date(at / 1000) : new Date(at);
  return Number.isNaN(date.getTime()) ? null : date;
}

/** The whole time: 2026-11-18 09:30:05.120 UTC. */
export function fullTime(at, name = zone.value) {
  const date = dateOf(at);
  if (!date) return "–";
  const parts = partsOf(date, name);
  return `${parts.day} ${parts.time}.${parts.milliseconds} ${parts.zone}`;
}

/** A time in a list: without the day if it is today's, without milliseconds. The zone stays. */
export function shortTime(at, name = zone.value, today = new Date()) {
  const date = dateOf(at);
  if (!date) return "–";
  const parts = partsOf(date, name);
  const isToday = partsOf(today, name).day === parts.day;
  return isToday ? `${parts.time} ${parts.zone}` : `${parts.day} ${parts.time.slice(0, 5)} ${parts.zone}`;
}

/** The labels of an axis, without the zone: `axisZone` names it once. */
export function axisTime(date, name = zone.value) {
  return partsOf(date, name).time;
}

/** The name of the zone at a time. */
export function zoneName(name = zone.value, at = new Date()) {
  return partsOf(dateOf(at) ?? new Date(), name).zone;
}

/** A time in files: RFC 3339, in UTC. */
export function fileTime(at) {
  return dateOf(at)?.toISOString() ?? "";
}

const STEPS = [["d", 86400e6], ["h", 3600e6], ["min", 60e6], ["s", 1e6], ["ms", 1e3], ["µs", 1]];

/** A duration of microseconds in at most two units: 2.4 s, 1 min 12 s, 3 d 4 h. */
export function duration(us) {
  if (us === null || us === undefined) return "–";
  if (us < 0) return `−${duration(-us)}`;
  if (us === 0) return "0 s";
  if (us < 60e6) return brief(us);
  const index = STEPS.findIndex(([, size]) => us >= size);
  const [unit, size] = STEPS[index];
  const [smaller, smallerSize] = STEPS[index + 1];
  const whole = Math.floor(us / size);
  const rest = Math.floor((us - whole * size) / smallerSize);
  return rest === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${smaller}`;
}

/** A duration below a minute, with at most one digit after the point. */
function brief(us) {
  const [unit, size] = STEPS.slice(3).find(([, step]) => us >= step) ?? STEPS[5];
  const number = us / size;
  const text = number < 10 ? (Math.floor(number * 10) / 10).toFixed(1).replace(/\.0$/, "") : String(Math.floor(number));
  return `${text} ${unit}`;
}

/** How long ago, as of `now`: 2 min ago, in 5 s. Differences below a second are "now". */
export function ago(at, now) {
  const date = dateOf(at);
  if (!date) return "–";
  const us = (now - date.getTime()) * 1000;
  if (Math.abs(us) < 1e6) return "now";
  const text = duration(Math.abs(us)).split(" ").slice(0, Math.abs(us) < 3600e6 ? 2 : 4).join(" ");
  return us > 0 ? `${text} ago` : `in ${text}`;
}
