// The drawing of a graph as a page shows it: paths, marks and the visible part. Pure.

export const START = "__start__";
export const END = "__end__";

/** A drawing with more nodes is drawn only if a person asks for it; its table is always there. */
export const NODES_MAX = 300;

const MARGIN = 24;

/** Returns the path of an edge: a curve that leaves and enters each point vertically. */
export function edgePath(edge) {
  const [first, ...rest] = edge.points;
  if (!first) return "";
  let path = `M${round(first[0])} ${round(first[1])}`;
  if (edge.from === edge.to) return path + rest.map(([x, y]) => `L${round(x)} ${round(y)}`).join("");
  let [fromX, fromY] = first;
  for (const [x, y] of rest) {
    const bend = (fromY + y) / 2;
    path += `C${round(fromX)} ${round(bend)} ${round(x)} ${round(bend)} ${round(x)} ${round(y)}`;
    [fromX, fromY] = [x, y];
  }
  return path;
}

function round(number) {
  return Math.round(number * 10) / 10;
}

/** Returns the counts of a node, whether marks are an object by id or a list. */
export function marksOf(marks, id) {
  const found = Array.isArray(marks) ? marks.find((mark) => (mark.node ?? mark.id) === id) : marks?.[id];
  const { visited = 0, current = 0, waiting = 0, failed = 0 } = found ?? {};
  return { visited, current, waiting, failed };
}

/** Returns the state of a node by its most important count: `failed`, `waiting`, `current`, `visited` or `""`. */
export function stateOf(counts) {
  return ["failed", "waiting", "current", "visited"].find((name) => counts[name] > 0) ?? "";
}

/** Returns what a node says below its name, the most important first. */
export function notesOf(counts) {
  const { failed, waiting, current, visited } = counts;
  const notes = [];
  if (failed > 0) notes.push(failed === 1 ? "failed" : `${short(failed)} failed`);
  if (waiting > 0) notes.push(waiting === 1 ? "waits" : `${short(waiting)} wait`);
  if (current > 0) notes.push(current === 1 ? "here now" : `${short(current)} here`);
  if (visited > 0) notes.push(visited === 1 ? "done" : `done ${short(visited)}×`);
  return notes;
}

/** Shortens a count: 1234 is 1.2k. */
export function short(count) {
  if (count < 1000) return String(count);
  const [unit, size] = count < 1_000_000 ? ["k", 1000] : ["M", 1_000_000];
  const number = count / size;
  return `${number < 10 ? Math.floor(number * 10) / 10 : Math.floor(number)}${unit}`;
}

/** Returns the name of a node: the start and the end have words. */
export function nameOf(node) {
  if (node.id === START) return "start";
  if (node.id === END) return "end";
  return node.id;
}

/** Returns the rows of the table beside a drawing: nodes from top to bottom, with where they lead. */
export function tableOf(layout, marks) {
  const leads = new Map();
  for (const edge of layout.edges) {
    if (!leads.has(edge.from)) leads.set(edge.from, []);
    leads.get(edge.from).push(edge);
  }
  return layout.nodes.toSorted((a, b) => a.y - b.y || a.x - b.x).map((node) => {
    const counts = marksOf(marks, node.id);
    return { id: node.id, name: nameOf(node), kind: node.kind ?? "node", counts, state: stateOf(counts), notes: notesOf(counts), leads: leads.get(node.id) ?? [] };
  });
}

/** Describes a drawing in one sentence, for those who cannot see it. */
export function sentence(layout, marks) {
  const own = layout.nodes.filter((node) => node.id !== START && node.id !== END);
  const at = (name) => own.filter((node) => marksOf(marks, node.id)[name] > 0).map(nameOf);
  const parts = [["now at", at("current")], ["waits at", at("waiting")], ["failed at", at("failed")]]
    .filter(([, names]) => names.length > 0)
    .map(([verb, names]) => `${verb} ${names.slice(0, 5).join(", ")}${names.length > 5 ? ` and ${names.length - 5} more` : ""}`);
  return [`A graph of ${own.length} ${own.length === 1 ? "node" : "nodes"}`, ...parts].join("; ");
}

/** Returns the part of a drawing that shows all of it. */
export function whole(layout) {
  return { x: -MARGIN, y: -MARGIN, width: layout.width + 2 * MARGIN, height: layout.height + 2 * MARGIN };
}

/** Enlarges or reduces the visible part around a point of the drawing. Bounded to ¼ and 8 times. */
export function zoomed(part, layout, factor, point) {
  const all = whole(layout);
  const width = Math.min(Math.max(part.width / factor, Math.min(all.width, 120)), all.width * 4);
  const scale = width / part.width;
  const { x, y } = point ?? { x: part.x + part.width / 2, y: part.y + part.height / 2 };
  return { x: x - (x - part.x) * scale, y: y - (y - part.y) * scale, width, height: part.height * scale };
}

/** Moves the visible part. The middle of it stays inside of the drawing. */
export function moved(part, layout, dx, dy) {
  const all = whole(layout);
  const within = (value, from, size, length) => Math.min(Math.max(value, from - length / 2), from + size - length / 2);
  return { ...part, x: within(part.x + dx, all.x, all.width, part.width), y: within(part.y + dy, all.y, all.height, part.height) };
}

/** Moves the visible part so that a node is in its middle. */
export function centred(part, layout, id) {
  const node = layout.nodes.find((one) => one.id === id);
  if (!node) return part;
  return moved({ ...part, x: node.x + node.width / 2 - part.width / 2, y: node.y + node.height / 2 - part.height / 2 }, layout, 0, 0);
}
