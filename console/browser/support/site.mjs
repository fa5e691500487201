// The program with the consoles: the one that is running already, or one of this test's own.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** What the program printed, if `cargo xtask test console` started it. */
const running = process.env.PLEACH_CONSOLE;

/** A server for a second store, as `cargo xtask postgres` starts one. */
const database = process.env.PLEACH_POSTGRES_URL;

/** The keys of the stores that the program has. */
export const stores = (running ? JSON.parse(running).postgres : database) ? ["s0", "s1"] : ["s0"];

/** Returns the running program, or starts one. `stop` ends only one that was started here. */
export async function site() {
  if (running) return { ...JSON.parse(running), stop: async () => {} };
  return start(...(database ? ["--postgres", database] : []));
}

/** Starts a program with these options. */
export async function start(...options) {
  const path = process.env.PLEACH_FIXTURE;
  if (!path) throw new Error("set PLEACH_FIXTURE to the path of pleach-console-fixture, or use `cargo xtask test console`");
  const child = spawn(path, options, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const first = await lines.next();
  if (first.done) throw new Error("the program ended without a line");
  /** Sends a line. Returns `handled`, the messages that its members have handled, and `url`. */
  const say = async (line) => {
    child.stdin.write(`${line}\n`);
    return JSON.parse((await lines.next()).value);
  };
  const stop = async () => {
    child.stdin.end();
    const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
    await ended;
    clearTimeout(timer);
  };
  return { ...JSON.parse(first.value), child, say, stop };
}

/** The interface of a console, for what a test asks without the page. */
export class Api {
  constructor(url) {
    const { origin, hash } = new URL(url);
    this.origin = origin;
    this.token = new URLSearchParams(hash.slice(1)).get("token");
  }

  async send(path, init = {}) {
    return fetch(this.origin + path, { ...init, headers: { authorization: `Bearer ${this.token}`, ...init.headers } });
  }

  async json(path, init) {
    const answer = await this.send(path, init);
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
    return JSON.parse(text);
  }

  async view(view) {
    return this.json(`/api/view?q=${encodeURIComponent(JSON.stringify(view))}`);
  }

  async post(path, body) {
    return this.json(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  }
}

/** Tries until `look` returns something, for at most `seconds`. */
export async function eventually(look, what, seconds = 20) {
  const until = Date.now() + seconds * 1000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > until) throw new Error(`it did not happen within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
