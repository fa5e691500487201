// The shared worker: one hub for all tabs of this browser.
//
// A tab that dies cannot say so. It holds a lock while it lives, so the worker waits for the same
// lock: it is granted when the tab is gone.

import { serve } from "./hub.js";

const hubs = new Map();

self.onconnect = ({ ports: [port] }) => {
  const client = {};
  port.onmessage = ({ data }) => {
    serve(hubs, client, data, (message) => port.postMessage(message));
    if (data.type === "join" && data.lock) void navigator.locks?.request(data.lock, () => serve(hubs, client, { type: "leave" }));
  };
};
