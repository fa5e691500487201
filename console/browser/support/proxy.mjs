// Stands between the browser and a console: counts its streams, and can be cut.

import { createServer, request } from "node:http";

export class Proxy {
  /** The streams that are open now. */
  streams = 0;
  /** All requests, as `METHOD /path`. */
  requests = [];
  #isCut = false;
  #sockets = new Set();

  /** Starts a proxy on a free port. `url` is that of the console. */
  static async to(url) {
    const proxy = new Proxy();
    const target = new URL(url);
    proxy.server = createServer((incoming, outgoing) => proxy.#pass(target, incoming, outgoing));
    proxy.server.on("connection", (socket) => {
      if (proxy.#isCut) return socket.destroy();
      proxy.#sockets.add(socket);
      socket.on("close", () => proxy.#sockets.delete(socket));
    });
    await new Promise((resolve) => proxy.server.listen(0, "127.0.0.1", resolve));
    proxy.origin = `http://127.0.0.1:${proxy.server.address().port}`;
    proxy.url = `${proxy.origin}/${target.hash}`;
    return proxy;
  }

  #pass(target, incoming, outgoing) {
    const path = incoming.url.split("?")[0];
    this.requests.push(`${incoming.method} ${path}`);
    // The console answers only to its own name.
    const headers = { ...incoming.headers, host: target.host };
    if (headers.origin) headers.origin = headers.origin.replace(this.origin, target.origin);
    const onward = request({ host: target.hostname, port: target.port, method: incoming.method, path: incoming.url, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      outgoing.flushHeaders();
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    if (path === "/api/stream") {
      this.streams += 1;
      outgoing.on("close", () => (this.streams -= 1));
    }
    outgoing.on("close", () => onward.destroy());
    incoming.pipe(onward);
  }

  /** Breaks all connections and takes no new ones, until `mend`. */
  cut() {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend() {
    this.#isCut = false;
  }

  async close() {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
