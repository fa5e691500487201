// The one stream of this browser, shared by its tabs.
//
// A hub runs in a shared worker, or in the tab that leads where shared workers are missing. It
// knows what each tab shows, asks the console for the union, and sends each tab what it watches.
//
// Invariants:
// 1. At most one stream is open, and none for long while no tab is visible.
// 2. A value is old from the moment the stream is lost, or a frame is missing, until the console
//    has sent it again.
// 3. At most one change of the watches is on its way; a later change replaces a waiting one.

/** The console sends a line at least every 10 s. After this silence the stream counts as lost. */
const SILENCE_MS = 25_000;
/** How long the stream stays open after the last visible tab. */
const LINGER_MS = 10_000;
/** Waits between attempts to connect; the last one is repeated. */
const WAITS_MS = [500, 1000, 2000, 4000, 8000];
/** What the console accepts in one stream. */
const WATCHES_MAX = 32;

const TOO_MANY = {
  code: "too_many_watches", text: `This browser shows more than ${WATCHES_MAX} live views at once.`,
  advice: "Close a tab of the console.",
};

/** The text of a query by which equal queries are found: names in order, nothing undefined. */
export function textOf(query) {
  return JSON.stringify(query, (_, value) => {
    if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
    return Object.fromEntries(Object.keys(value).sort().map((key) => [key, value[key]]));
  });
}

/** Splits a stream of bytes into lines. */
export function lineSplitter(onLine) {
  const decoder = new TextDecoder();
  let rest = "";
  return (bytes) => {
    const parts = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = parts.pop();
    for (const line of parts) if (line.trim()) onLine(line);
  };
}

export class Hub {
  /** `outside` has `fetch`, `now`, `after(ms, f)` (returns a way to cancel) and `token`. */
  constructor(outside) {
    this.outside = outside;
    this.clients = new Map();
    this.entries = new Map();
    this.stream = null;
    this.state = { state: "connecting", since: outside.now(), at: null, gaps: 0, gapAt: null, error: null };
    this.attempts = 0;
    this.counter = 0;
    this.cancelWait = null;
    this.cancelLinger = null;
    this.sending = { isBusy: false, isWanted: false };
  }

  /** Adds a tab. `post` sends it a message. */
  join(client, post) {
    this.clients.set(client, { post, texts: new Set(), isAwake: true });
    post({ type: "state", ...this.state });
  }

  /** Removes a tab. */
  leave(client) {
    if (this.clients.delete(client)) this.update();
  }

  /** Replaces what a tab watches: texts of queries. */
  watch(client, texts) {
    const known = this.clients.get(client);
    if (!known) return;
    const before = known.texts;
    known.texts = new Set(texts);
    for (const text of texts) if (!before.has(text)) this.tell(known, text);
    this.update();
  }

  /** A tab was hidden or shown. */
  wake(client, isAwake) {
    const known = this.clients.get(client);
    if (!known || known.isAwake === isAwake) return;
    known.isAwake = isAwake;
    if (isAwake) {
      known.post({ type: "state", ...this.state });
      for (const text of known.texts) this.tell(known, text);
    }
    this.update();
  }

  /** Connects at once instead of waiting. */
  retry() {
    if (this.stream?.id) return;
    this.attempts = 0;
    this.close();
    this.update();
  }

  /** Sends a tab the present value of a view, if there is one. */
  tell(client, text) {
    const entry = this.entries.get(text);
    if (entry?.message) client.post({ ...entry.message, isOld: entry.isOld });
  }

  /** Makes the stream fit what visible tabs watch. */
  update() {
    const wanted = new Set();
    for (const { isAwake, texts } of this.clients.values()) if (isAwake) for (const text of texts) wanted.add(text);
    let isChanged = false;
    for (const text of [...this.entries.keys()]) if (!wanted.has(text)) isChanged = this.entries.delete(text);
    for (const text of wanted) {
      if (this.entries.has(text)) continue;
      this.entries.set(text, { id: this.newId(), message: null, isOld: true });
      isChanged = true;
    }
    if (![...this.clients.values()].some(({ isAwake }) => isAwake)) return this.linger();
    this.cancelLinger?.();
    this.cancelLinger = null;
    if (!this.stream && !this.cancelWait) void this.connect();
    else if (isChanged) void this.sendWatches();
  }

  newId() {
    this.counter += 1;
    return `w${this.counter}`;
  }

  linger() {
    if (this.stream?.id) void this.sendWatches();
    if (this.cancelLinger) return;
    this.cancelLinger = this.outside.after(LINGER_MS, () => {
      this.cancelLinger = null;
      this.close();
      this.say({ state: "connecting", since: this.outside.now(), error: null });
    });
  }

  /** Opens the stream and reads it until it ends. */
  async connect() {
    const stream = { abort: new AbortController(), id: null, seq: null, heard: this.outside.now() };
    this.stream = stream;
    for (const entry of this.entries.values()) entry.id = this.newId();
    let error = null;
    try {
      const response = await this.outside.fetch("/api/stream", { signal: stream.abort.signal });
      if (!response.ok) {
        error = await errorOf(response);
      } else {
        this.guard(stream);
        await this.read(stream, response);
      }
    } catch {
      // The connection is lost; what follows says so.
    }
    if (this.stream === stream) this.lost(error);
  }

  /** Gives up a stream that is silent for too long. */
  guard(stream) {
    stream.cancelGuard = this.outside.after(SILENCE_MS - (this.outside.now() - stream.heard), () => {
      if (this.stream !== stream) return;
      if (this.outside.now() - stream.heard >= SILENCE_MS) stream.abort.abort();
      else this.guard(stream);
    });
  }

  async read(stream, response) {
    const feed = lineSplitter((line) => {
      if (this.stream === stream) this.hear(stream, JSON.parse(line));
    });
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      stream.heard = this.outside.now();
      feed(value);
    }
  }

  /** Takes one line of the stream. */
  hear(stream, line) {
    if (line.stream) {
      stream.id = line.stream;
      this.say({ state: "connected", since: this.outside.now(), error: null });
      void this.sendWatches();
      return;
    }
    const isGap = stream.seq !== null && line.seq !== stream.seq + 1;
    stream.seq = line.seq;
    if (isGap) this.repair();
    if (line.key) this.take(line);
    this.say({ at: line.at ?? this.state.at });
  }

  /** Takes a value or an error of one view. */
  take(line) {
    for (const [text, entry] of this.entries) {
      if (entry.id !== line.key) continue;
      const error = line.error ?? tooLarge(line.too_large);
      this.settle(text, entry, error ? { type: "error", text, error, at: line.at } : { type: "value", text, value: line.value, at: line.at });
    }
  }

  settle(text, entry, message) {
    Object.assign(entry, { message, isOld: false });
    this.post(text, { ...message, isOld: false });
  }

  /** Asks for every value again, because a frame is missing. */
  repair() {
    for (const [text, entry] of this.entries) {
      entry.id = this.newId();
      entry.isOld = true;
      this.post(text, { type: "old", text });
    }
    this.say({ gaps: this.state.gaps + 1, gapAt: this.outside.now() });
    void this.sendWatches();
  }

  /** Tells the console what is watched now. */
  async sendWatches() {
    const { stream, sending } = this;
    sending.isWanted = true;
    if (!stream?.id || sending.isBusy) return;
    sending.isBusy = true;
    while (sending.isWanted && this.stream === stream) {
      sending.isWanted = false;
      const isSent = await this.postWatches(stream);
      if (!isSent && this.stream === stream) stream.abort.abort();
    }
    sending.isBusy = false;
    if (sending.isWanted && this.stream?.id) void this.sendWatches();
  }

  async postWatches(stream) {
    const watches = {};
    let left = WATCHES_MAX;
    for (const [text, entry] of this.entries) {
      if (entry.isRefused) continue;
      if (left > 0) watches[entry.id] = JSON.parse(text);
      else this.settle(text, entry, { type: "error", text, error: TOO_MANY, at: null });
      left -= 1;
    }
    try {
      const response = await this.outside.fetch("/api/watch", {
        method: "POST", body: JSON.stringify({ stream: stream.id, watches }), signal: stream.abort.signal,
      });
      if (response.ok) this.attempts = 0;
      if (response.status !== 400) return response.ok;
      return await this.findRefused(stream);
    } catch {
      return false;
    }
  }

  /** One of the views cannot be watched: finds out which, so that the others can. */
  async findRefused(stream) {
    let isFound = false;
    for (const [text, entry] of [...this.entries]) {
      if (entry.message || entry.isRefused) continue;
      const response = await this.outside.fetch(`/api/view?q=${encodeURIComponent(text)}`, { signal: stream.abort.signal });
      if (response.status !== 400) continue;
      isFound = entry.isRefused = true;
      this.settle(text, entry, { type: "error", text, error: await errorOf(response), at: null });
    }
    this.sending.isWanted ||= isFound;
    return isFound;
  }

  /** The stream is lost: marks all values as old, and connects again later. */
  lost(error) {
    const wasConnected = this.state.state === "connected";
    this.close();
    for (const [text, entry] of this.entries) {
      entry.isOld = true;
      this.post(text, { type: "old", text });
    }
    const isFinal = error?.status === 401 || error?.status === 403;
    const since = wasConnected || this.state.state === "connecting" ? this.outside.now() : this.state.since;
    this.say({ state: isFinal ? "refused" : "disconnected", since, error });
    if (isFinal) return;
    const wait = WAITS_MS[Math.min(this.attempts, WAITS_MS.length - 1)];
    this.attempts += 1;
    this.cancelWait = this.outside.after(wait, () => {
      this.cancelWait = null;
      this.update();
    });
  }

  /** Ends the stream and what waits for it. */
  close() {
    const { stream } = this;
    this.stream = null;
    stream?.cancelGuard?.();
    stream?.abort.abort();
    this.cancelWait?.();
    this.cancelWait = null;
  }

  /** Tells the visible tabs about the connection. */
  say(change) {
    Object.assign(this.state, change);
    for (const { post, isAwake } of this.clients.values()) if (isAwake) post({ type: "state", ...this.state });
  }

  /** Sends a message to the visible tabs that watch a view. */
  post(text, message) {
    for (const { post, texts, isAwake } of this.clients.values()) if (isAwake && texts.has(text)) post(message);
  }
}

function tooLarge(bytes) {
  return bytes ? { code: "too_large", text: "This view is too large to be sent live.", bytes } : null;
}

async function errorOf(response) {
  try {
    const { error } = await response.json();
    return { ...error, status: response.status };
  } catch {
    return { code: "bad_answer", text: `The console answered with the status ${response.status}.`, status: response.status };
  }
}

/** What a hub needs of the browser. */
export function outsideOf(token) {
  return {
    token,
    now: () => Date.now(),
    fetch: (path, options) => fetch(path, {
      ...options, cache: "no-store", redirect: "error",
      headers: { Authorization: `Bearer ${token}`, ...(options.body ? { "Content-Type": "application/json" } : {}) },
    }),
    after: (ms, run) => {
      const timer = setTimeout(run, ms);
      return () => clearTimeout(timer);
    },
  };
}

/** Serves the messages of a tab. Returns the hub of the tab's token. */
export function serve(hubs, client, message, post) {
  if (message.type === "join") {
    if (!hubs.has(message.token)) hubs.set(message.token, new Hub(outsideOf(message.token)));
    hubs.get(message.token).join(client, post);
    return hubs.get(message.token);
  }
  const hub = [...hubs.values()].find(({ clients }) => clients.has(client));
  if (message.type === "watch") hub?.watch(client, message.texts);
  if (message.type === "wake") hub?.wake(client, message.isAwake);
  if (message.type === "retry") hub?.retry();
  if (message.type === "leave") hub?.leave(client);
  return hub;
}
