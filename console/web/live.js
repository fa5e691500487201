// Live views: what a page shows, kept up to date by the one stream of this browser.
//
// The hub of the stream runs in a shared worker. Where these are missing, the tab that holds a lock
// runs it, and the tabs talk through a broadcast channel.

import { batch, signal, useEffect, useMemo, useRef, useState } from "./lib.js";
import { Failure, getView, isRefused } from "./api.js";
import { serve, textOf } from "./hub.js";

/** `state`: `connecting`, `connected`, `disconnected` or `refused`; `since`, `at`, `gaps`, `error`. */
export const connection = signal({ state: "connecting", since: Date.now(), at: null, gaps: 0, gapAt: null, error: null });

/** How long a view that nobody shows any more is remembered. */
const REMEMBER_MS = 60_000;

const LOADING = Object.freeze({ status: "loading", value: null, error: null, at: null, isOld: false });

const cells = new Map();
let toHub = null;
let waiting = [];
let isPainting = false;
let isSending = false;

/** Connects this tab. Called once, when the token is known. */
export function startLive(token) {
  const lock = `pleach-tab-${crypto.randomUUID()}`;
  toHub = globalThis.SharedWorker ? connectWorker() : connectLeader(lock);
  const tellAwake = () => toHub({ type: "wake", isAwake: document.visibilityState === "visible" });
  document.addEventListener("visibilitychange", tellAwake);
  addEventListener("pagehide", () => toHub({ type: "wake", isAwake: false }));
  addEventListener("pageshow", tellAwake);
  const join = () => {
    toHub({ type: "join", token, lock });
    tellAwake();
    sendWatches();
  };
  if (!navigator.locks) return join();
  // The hub takes a tab for closed when it gets the lock of the tab. So it must not hear of the tab
  // before the tab has the lock.
  void navigator.locks.request(lock, () => (join(), new Promise(() => {})));
}

/** Connects at once instead of waiting for the next attempt. */
export function retryNow() {
  toHub?.({ type: "retry" });
}

function connectWorker() {
  const address = "/assets/live-worker.js";
  const policy = globalThis.trustedTypes?.createPolicy("pleach-worker", { createScriptURL: () => address });
  const worker = new SharedWorker(policy ? policy.createScriptURL("") : address, { type: "module", name: "pleach" });
  worker.port.onmessage = ({ data }) => receive(data);
  return (message) => worker.port.postMessage(message);
}

/** Without shared workers: the tab that gets the lock runs the hub for all. */
function connectLeader(lock) {
  const channel = new BroadcastChannel("pleach-live");
  const hubs = new Map();
  const messages = [];
  let isLeader = false;
  const hear = (from, message) => {
    const post = from === lock ? receive : (answer) => channel.postMessage({ to: from, message: answer });
    serve(hubs, from, message, post);
    if (message.type === "join" && from !== lock) void navigator.locks.request(from, () => serve(hubs, from, { type: "leave" }));
  };
  const join = () => {
    if (!messages[0]) return;
    toHub(messages[0]);
    // A new hub takes each tab for visible until it hears of it.
    toHub({ type: "wake", isAwake: document.visibilityState === "visible" });
  };
  channel.onmessage = ({ data }) => {
    if (data.to === lock) receive(data.message);
    else if (data.from && isLeader) hear(data.from, data.message);
    else if (data.newLeader) {
      join();
      sendWatches();
    }
  };
  void navigator.locks.request("pleach-leader", () => {
    isLeader = true;
    join();
    sendWatches();
    channel.postMessage({ newLeader: true });
    return new Promise(() => {});
  });
  return (message) => {
    if (message.type === "join") messages[0] = message;
    if (isLeader) hear(lock, message);
    else channel.postMessage({ from: lock, message });
  };
}

/** Collects messages and shows them in one frame. */
function receive(message) {
  waiting.push(message);
  if (isPainting) return;
  isPainting = true;
  requestAnimationFrame(() => {
    const messages = waiting;
    waiting = [];
    isPainting = false;
    batch(() => messages.forEach(show));
  });
}

function show(message) {
  if (message.type === "state") {
    const { type: _, ...state } = message;
    if (state.state === "refused" && state.error?.status === 401) isRefused.value = true;
    connection.value = state;
    return;
  }
  const cell = cells.get(message.text);
  if (!cell) return;
  const before = cell.now.value;
  if (message.type === "old") cell.now.value = { ...before, isOld: before.status !== "loading" };
  if (message.type === "value") cell.now.value = { status: "ready", value: message.value, error: null, at: message.at, isOld: message.isOld };
  if (message.type === "error") {
    const status = before.value === null ? "error" : "ready";
    cell.now.value = { ...before, status, error: new Failure(message.error), isOld: true };
  }
}

function cellOf(text) {
  if (!cells.has(text)) {
    const cell = { now: signal(LOADING), users: 0, isWatched: false, forget: null };
    forgetLater(text, cell);
    cells.set(text, cell);
  }
  return cells.get(text);
}

/** Watches a view until the returned function is called. */
function hold(text) {
  const cell = cellOf(text);
  cell.users += 1;
  clearTimeout(cell.forget);
  sendWatches();
  return () => {
    cell.users -= 1;
    if (cell.users === 0) forgetLater(text, cell);
    sendWatches();
  };
}

/** Sends what this tab watches, once for all changes of a turn. */
function sendWatches() {
  if (isSending || !toHub) return;
  isSending = true;
  setTimeout(() => {
    isSending = false;
    const texts = [];
    batch(() => {
      for (const [text, cell] of cells) {
        if (cell.users > 0) texts.push(text);
        else if (cell.isWatched) unwatch(text, cell);
        cell.isWatched = cell.users > 0;
      }
    });
    toHub({ type: "watch", texts });
  }, 0);
}

/** Nobody shows a view any more: its value is old from now on. */
function unwatch(text, cell) {
  cell.now.value = { ...cell.now.value, isOld: cell.now.value.status !== "loading" };
}

/** Forgets a view after a while, unless it is held again. */
function forgetLater(text, cell) {
  clearTimeout(cell.forget);
  cell.forget = setTimeout(() => cells.delete(text), REMEMBER_MS);
}

/**
 * Shows a view live. `query` is the view with its parameters, or null for none. Returns `status`
 * (`loading`, `ready`, `error`), `value`, `error`, `at` and `isOld`. An error beside a value means
 * that the value is old. With `keep`, the former value is shown until another query is answered.
 */
export function useLive(query, { keep = false } = {}) {
  const text = query ? textOf(query) : null;
  const former = useRef(null);
  const cell = useMemo(() => (text === null ? null : cellOf(text)), [text]);
  useEffect(() => (text === null ? undefined : hold(text)), [text]);
  const now = cell ? cell.now.value : LOADING;
  if (now.status === "ready") former.current = now;
  if (keep && now.status === "loading" && former.current) return { ...former.current, isKept: true };
  return now;
}

/** Shows several views live; their number may change. Returns what `useLive` returns, for each. */
export function useLiveMany(queries) {
  const texts = queries.map(textOf);
  useEffect(() => {
    const releases = texts.map(hold);
    return () => releases.forEach((release) => release());
  }, [texts.join("\n")]);
  return texts.map((text) => cellOf(text).now.value);
}

/** Shows a view that is fetched once. Returns what `useLive` returns, and `reload`. */
export function useOnce(query) {
  const text = query ? textOf(query) : null;
  const [turn, setTurn] = useState(0);
  const [now, setNow] = useState(LOADING);
  const shown = useRef(null);
  useEffect(() => {
    if (text === null) return undefined;
    const abort = new AbortController();
    if (shown.current !== text) setNow(LOADING);
    shown.current = text;
    getView(JSON.parse(text), { signal: abort.signal }).then(
      (value) => setNow({ status: "ready", value, error: null, at: new Date().toISOString(), isOld: false }),
      (error) => {
        if (error.name === "AbortError") return;
        setNow((before) => ({ ...before, status: before.value === null ? "error" : "ready", error, isOld: true }));
      },
    );
    return () => abort.abort();
  }, [text, turn]);
  return { ...(shown.current === text || text === null ? now : LOADING), reload: () => setTurn((number) => number + 1) };
}
