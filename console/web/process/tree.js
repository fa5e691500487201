// The tree of members: by window, the busiest, or only what is not well.

import { html } from "../lib.js";
import { change, link } from "../router.js";
import { process as chosen } from "../sources.js";
import { JsonButton } from "../dialog.js";
import { Choice, Command, FilterBox, PageHead } from "../ui.js";
import { Empty } from "../states.js";
import { nameOf, pathsTo, visible } from "../text.js";
import { Busiest, topQuery } from "./busiest.js";
import { LogLevel } from "./log-level.js";
import { NotWell, notWellQuery } from "./not-well.js";
import { firstQuery, TreeRows } from "./tree-rows.js";
import { memberCommand } from "./words.js";
import { command } from "../runs/shell.js";

const SHOWS = [["tree", "Tree"], ["top", "Busiest"], ["not_well", "Not well"]];

export function Page({ params }) {
  const process = chosen.value;
  if (!process) return html`<${PageHead} title="Tree" /><${Empty} icon="tree" title="No process" text="This console shows only stores. Start it with the socket of a process to see its tree." />`;
  const show = SHOWS.some(([name]) => name === params.get("show")) ? params.get("show") : "tree";
  const path = params.get("path") ?? "/";
  const { query, text } = queryOf(show, process, path, params);
  const onFilter = (contains) => change({ contains, show: contains && show === "tree" ? "top" : show });
  return html`<${PageHead} title="Tree" tools=${html`<${LogLevel} process=${process} />${text && html`<${Command} text=${text} />`}<${JsonButton} query=${query} />`}>
      <${Ancestors} path=${path} /><//>
    <div class="bar"><${Choice} label="Members" options=${SHOWS} value=${show} onChoose=${(name) => change({ show: name === "tree" ? null : name }, { replace: false })} />
      ${show !== "not_well" && html`<${FilterBox} label="Find members by path" placeholder="Find by path" value=${params.get("contains") ?? ""} onChange=${onFilter} />`}</div>
    ${show === "tree" && html`<${TreeRows} key=${process.key + path} process=${process} path=${path} params=${params} />`}
    ${show === "top" && html`<${Busiest} key=${process.key + path} process=${process} path=${path} params=${params} />`}
    ${show === "not_well" && html`<${NotWell} key=${process.key + path} process=${process} path=${path} />`}`;
}

function queryOf(show, process, path, params) {
  const { key, target } = process;
  if (show === "top") {
    const query = topQuery(key, path, params);
    const words = ["pleach", "top", target, "--once", "--by", query.by, ...(path === "/" ? [] : ["--below", path])];
    return { query, text: target && command(...words) };
  }
  if (show === "not_well") return { query: notWellQuery(key, path), text: target && command("pleach", "tree", target, ...(path === "/" ? [] : [path]), "--not-well") };
  return { query: firstQuery(key, path, params), text: path === "/" ? target && command("pleach", "tree", target) : memberCommand(process, "tree", path) };
}

/** The way from the root to where the tree starts. */
function Ancestors({ path }) {
  if (path === "/") return null;
  const paths = pathsTo(path);
  return html`<nav class="ancestors" aria-label="Path to the root">${paths.map((at, index) => html`<span key=${at}>
    ${index > 1 && html`<span class="slash" aria-hidden="true">/</span>`}
    ${at === path ? html`<span class="path" aria-current="location">${visible(nameOf(at))}</span>` : html`<a class="path" href=${link("/tree", { path: at === "/" ? null : at })}>${visible(nameOf(at))}</a>`}</span>`)}</nav>`;
}
