// The filters of a list of runs: in a URL, in a request, and as `pleach runs list` has them.
//
// A URL has the names of the options, so a command can be pasted as a filter and a filter can be
// copied as a command.

import { command, split } from "./shell.js";

export const STATUSES = [
  "running", "waiting", "stuck", "finished", "failed", "cancelled", "compensated", "compensation failed",
];

export const GROUPS = ["error", "graph", "status"];

/** The filters with one value. */
const SINGLE = ["status", "graph", "tag", "id-prefix", "since", "before"];

/** The options of the command that take a value and are no filters. */
const OTHER = ["limit", "after", "fields", "jq", "color"];

/** No filter. `tag` is `key=value`, `since` and `before` are a duration or a time. */
export const NONE = Object.freeze({
  status: "", failed: false, graph: "", tag: "", "id-prefix": "", since: "", before: "", "group-by": "",
});

/** Reads the filters of a URL. Unknown parameters are left to others. */
export function fromUrl(parameters) {
  const filters = { ...NONE };
  for (const name of SINGLE) filters[name] = parameters.get(name) ?? "";
  filters.failed = parameters.has("failed") && parameters.get("failed") !== "false";
  if (GROUPS.includes(parameters.get("group-by"))) filters["group-by"] = parameters.get("group-by");
  if (filters.failed) filters.status = "";
  return filters;
}

/** Writes the filters as parameters of a URL: an object without empty values. */
export function toUrl(filters) {
  const parameters = {};
  for (const name of [...SINGLE, "group-by"]) if (filters[name]) parameters[name] = filters[name];
  if (filters.failed) parameters.failed = "true";
  return parameters;
}

/** Returns the `filters` of a request. */
export function toRequest(filters) {
  const request = {};
  if (filters.failed) request.failed = true;
  else if (filters.status) request.status = [filters.status];
  for (const name of ["graph", "tag", "id-prefix", "since", "before"]) {
    if (filters[name]) request[name.replace("-", "_")] = filters[name];
  }
  return request;
}

/** Returns whether any filter narrows the list. Grouping does not. */
export function narrows(filters) {
  return Object.keys(toRequest(filters)).length > 0;
}

/** Returns the command that lists the same runs. */
export function toCommand(filters, store) {
  const words = ["pleach", "runs", "list", store];
  if (filters.failed) words.push("--failed");
  for (const name of [...SINGLE, "group-by"]) {
    if (filters[name]) words.push(`--${name}`, filters[name]);
  }
  return command(...words);
}

/**
 * Reads a pasted command, or only its options. A text without options is the beginning of an id.
 * Returns `filters`, or `problem` with what is not understood.
 */
export function fromText(text) {
  const words = split(text.trim());
  const begin = words.findIndex((word) => word.startsWith("--"));
  if (begin < 0) {
    const isCommand = words[0] === "pleach";
    return { filters: { ...NONE, "id-prefix": isCommand ? "" : text.trim() } };
  }
  const filters = { ...NONE };
  for (let at = begin; at < words.length; at += 1) {
    const [, option, given] = /^--([^=]*)(?:=(.*))?$/s.exec(words[at]) ?? [];
    if (option === undefined) continue; // the store, or another word of the command
    if (option === "failed") {
      filters.failed = true;
      continue;
    }
    if (option === "json" || option === "utc") continue;
    const value = given ?? words[at += 1];
    if (value === undefined) return { problem: `--${option} needs a value` };
    if (SINGLE.includes(option) || option === "group-by") filters[option] = value;
    else if (!OTHER.includes(option)) return { problem: `there is no filter --${option}` };
  }
  return checked(filters);
}

/** Says in words what is wrong with filters, or returns them. */
export function checked(filters) {
  if (filters.status && !STATUSES.includes(filters.status)) {
    return { problem: `there is no status "${filters.status}"; there are ${STATUSES.join(", ")}` };
  }
  if (filters["group-by"] && !GROUPS.includes(filters["group-by"])) {
    return { problem: `runs are grouped by ${GROUPS.join(", ")}` };
  }
  if (filters.failed && filters.status) return { problem: "--failed and --status exclude each other" };
  if (filters.tag && !/^[^=]+=/.test(filters.tag)) return { problem: "a tag is written KEY=VALUE" };
  for (const name of ["since", "before"]) {
    if (filters[name] && !isTime(filters[name])) {
      return { problem: `${name} is a time such as 90s, 2h, 7d or 2026-11-17T09:30:00Z` };
    }
  }
  return { filters };
}

function isTime(text) {
  return /^\d+(ms|s|m|h|d)$/.test(text) || (/^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(Date.parse(text)));
}
