// Requests to the console. The token travels as a header; there are no cookies.

import { signal } from "./lib.js";

const KEY = "pleach.token";
const TABS = "pleach-token";

/** The token, or null while it is unknown. */
export const token = signal(null);

/** True after the console refused the token. */
export const isRefused = signal(false);

/** A request that failed: `code`, `text`, `advice` as the console wrote them, and the status. */
export class Failure extends Error {
  constructor({ code, text, advice = null }, status = 0) {
    super(text);
    Object.assign(this, { code, text, advice, status });
  }
}

/** The token in the fragment of a URL, as `#token=…` or `#…`; null if there is none. */
export function tokenIn(fragment) {
  const text = fragment.replace(/^#/, "");
  const named = new URLSearchParams(text).get("token");
  if (named) return named;
  return /^[A-Za-z0-9_-]{16,}$/.test(text) ? text : null;
}

/**
 * Finds the token: in the address bar, from which it is removed, in this tab, or in another tab of
 * the console. Resolves to null if no one knows it.
 */
export async function findToken() {
  const given = tokenIn(location.hash);
  if (given) history.replaceState(history.state, "", location.pathname + location.search);
  setToken(given ?? kept() ?? (await askTabs()));
  return token.value;
}

/** Uses a token from now on. */
export function setToken(text) {
  token.value = text;
  isRefused.value = false;
  try {
    if (text) sessionStorage.setItem(KEY, text);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Not kept; a reload asks for it again.
  }
}

function kept() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** Asks the other tabs of this console, which only pages of the same origin can hear. */
function askTabs() {
  return new Promise((resolve) => {
    const channel = new BroadcastChannel(TABS);
    const done = (answer) => {
      channel.close();
      resolve(answer);
    };
    const timer = setTimeout(done, 250, null);
    channel.onmessage = ({ data }) => {
      if (typeof data?.token !== "string") return;
      clearTimeout(timer);
      done(data.token);
    };
    channel.postMessage({ ask: true });
  });
}

/** Answers other tabs that ask for the token. Called once. */
export function answerTabs() {
  const channel = new BroadcastChannel(TABS);
  channel.onmessage = ({ data }) => {
    if (data?.ask && token.value && !isRefused.value) channel.postMessage({ token: token.value });
  };
}

/** Sends a request and returns the response. Throws `Failure`. */
async function send(path, { body, signal: abort } = {}) {
  const headers = { Authorization: `Bearer ${token.value}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method: body === undefined ? "GET" : "POST", headers, signal: abort, cache: "no-store", redirect: "error" };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure({ code: "unreachable", text: "The console does not answer.", advice: "Check whether its process still runs." });
  }
  if (response.ok) return response;
  if (response.status === 401) isRefused.value = true;
  throw await failureOf(response);
}

async function failureOf(response) {
  try {
    const { error } = await response.json();
    if (error?.code) return new Failure(error, response.status);
  } catch {
    // Not an answer of the console.
  }
  return new Failure({ code: "bad_answer", text: `The console answered with the status ${response.status}.` }, response.status);
}

/** Sends a request and returns the JSON value. Throws `Failure`. */
export async function request(path, options) {
  const response = await send(path, options);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure({ code: "bad_answer", text: "The answer of the console is not JSON." }, response.status);
  }
}

const viewPath = (route, query) => `${route}?q=${encodeURIComponent(JSON.stringify(query))}`;

/** Returns what the console shows. */
export const getConsole = (options) => request("/api/console", options);

/** Returns a view once. */
export const getView = (query, options) => request(viewPath("/api/view", query), options);

/** Plans an action, or carries out a plan. */
export const act = (body) => request("/api/act", { body });

/** Plans, starts or stops an action on many runs. */
export const bulk = (body) => request("/api/bulk", { body });

/** Saves a download as a file. The name is that of the console, or `name`. */
export async function download(query, name) {
  const response = await send(viewPath("/api/download", query));
  const given = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
  saveFile(await response.blob(), given ?? name);
}

/** Offers data as a file of the browser. */
export function saveFile(blob, name) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name.replace(/[^\w.\-]+/g, "_");
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}
