// A member: what it does now, its last minutes, the story of its restarts, its ledger, and actions.

import { html, useState } from "../lib.js";
import { download } from "../api.js";
import { openAction } from "../act.js";
import { useLive } from "../live.js";
import { link } from "../router.js";
import { process as chosen, shown } from "../sources.js";
import { JsonButton } from "../dialog.js";
import { KindIcon } from "../icons.js";
import { Badge, Button, Code, Command, PageHead, Path, Section } from "../ui.js";
import { Empty, Failed, Shown } from "../states.js";
import { count, nameOf, parentOf, pathsTo, plural, sentence, visible, words } from "../text.js";
import { duration } from "../time.js";
import { useCommands } from "../palette.js";
import { Ledger } from "./ledger.js";
import { Now } from "./now.js";
import { Plots } from "./plots.js";
import { Pips, Story } from "./story.js";
import { activityOf, memberCommand, restartsText } from "./words.js";

export function Page({ params }) {
  const process = chosen.value;
  const path = params.get("path") ?? "/";
  if (!process) return html`<${PageHead} title="Member" /><${Empty} icon="tree" title="No such process" text="This console does not show the process of this member." />`;
  return html`<${Member} key=${`${process.key} ${path}`} process=${process} path=${path} />`;
}

function Member({ process, path }) {
  const query = { view: "member", process: process.key, path };
  const view = useLive(query);
  const member = view.value?.member;
  const run = member?.run;
  const state = member && activityOf(member);
  return html`<${PageHead} title=${html`<span class="member-name">${member && html`<${KindIcon} kind=${member.kind} />`}<span>${visible(nameOf(path))}</span></span>`}
      tools=${html`<${Actions} process=${process} path=${path} member=${member} /><${Save} query=${query} path=${path} /><${JsonButton} query=${query} />`}>
      <${Ancestors} path=${path} process=${process.key} ancestors=${view.value?.ancestors} />
      ${member && html`<p class="member-facts"><span>${sentence(words(member.kind))}</span><${Badge} tone=${state.tone} icon=${state.icon}>${state.text}<//>
        ${run && html`<a href=${link("/run", { store: run.store, run: run.id })}>Run ${visible(run.id)}</a>`}
        ${member.children > 0 && html`<a href=${link("/tree", { process: process.key, path })}>${plural(member.children, "child", "children")}</a>`}</p>`}<//>
    ${process.target && html`<div class="bar"><${Command} text=${memberCommand(process, "why", path)} /></div>`}
    <div class="member"><div class="member-main">
      ${view.status === "error" && view.error?.code === "not_found" ? html`<${Ended} path=${path} process=${process} />` : html`<${Shown} of=${view} rows=${6}>${(value) => html`<${Now} value=${value} process=${process.key} />`}<//>`}
      ${member?.actor && html`<${Plots} process=${process.key} path=${path} />`}
      <${Story} process=${process.key} path=${path} /></div>
      <div class="member-side">${view.value && html`<${Facts} member=${view.value.member} process=${process.key} /><${Ledger} ledger=${view.value.ledger} />`}</div></div>`;
}

/** A member that is not there: it has ended, or never was. */
function Ended({ path, process }) {
  const parent = parentOf(path) ?? "/";
  return html`<${Empty} icon="stopped" title="No member is here now" text="It has ended, or there never was one. What the console knows of it is below.">
    <p><a href=${link("/tree", { process: process.key, path: parent })}>Look at what is left in ${visible(parent)}</a></p><//>`;
}

/** The way from the root, each step with a link. */
function Ancestors({ path, process, ancestors }) {
  const paths = ancestors?.length ? ancestors.map((ancestor) => ancestor.path) : pathsTo(path);
  const above = paths.filter((at) => at !== path);
  return html`<nav class="ancestors" aria-label="Path to the root">${above.map((at, index) => html`<span key=${at}>${index > 1 && html`<span class="slash" aria-hidden="true">/</span>`}
    <a class="path" href=${link("/member", { process, path: at })}>${visible(nameOf(at))}</a></span>`)}<span>${above.length > 1 && html`<span class="slash" aria-hidden="true">/</span>`}<span class="path" aria-current="page">${visible(nameOf(path))}</span></span></nav>`;
}

/** Actions that a kind of member can be asked for. */
function kindsOf({ kind, activity }) {
  if (kind === "root" || kind === "guardian") return [];
  if (!["actor", "supervisor", "pool"].includes(kind)) return ["stop"];
  return ["restart", activity.state === "suspended" ? "resume" : "suspend", "stop"];
}

function Actions({ process, path, member }) {
  const kinds = member ? kindsOf(member) : [];
  const order = (kind) => openAction({ kind, process: process.key, path, member_id: member?.id });
  useCommands(kinds.map((kind) => ({ title: `${sentence(kind)} ${path}`, run: () => order(kind) })), [kinds.join(), path]);
  const isLocked = shown.value?.is_read_only;
  return kinds.map((kind) => html`<${Button} key=${kind} icon=${isLocked ? "lock" : undefined} label=${isLocked ? "This console is read-only: it shows what would happen" : undefined} onClick=${() => order(kind)}>${sentence(kind)} …<//>`);
}

/** Saves the member and what is below it as one file. */
function Save({ query, path }) {
  const [state, setState] = useState({ isBusy: false, error: null });
  const save = async () => {
    setState({ isBusy: true, error: null });
    try {
      await download(query, `incident-${path === "/" ? "root" : path.slice(1)}.html`);
      setState({ isBusy: false, error: null });
    } catch (error) {
      setState({ isBusy: false, error });
    }
  };
  return html`<${Button} icon="save" disabled=${state.isBusy} onClick=${save}>${state.isBusy ? "Saving …" : "Save incident"}<//>${state.error && html`<${Failed} title="The file could not be made" error=${state.error} onRetry=${save} />`}`;
}

/** What does not change from moment to moment. */
function Facts({ member, process }) {
  const { actor, restarts, last_failure: last } = member;
  const lines = [
    ["Messages", actor && html`<${Code} text=${actor.message_type} />`],
    ["Incarnation", actor && html`${count(actor.incarnation)}${actor.incarnation > 0 ? html` <small>restarted ${plural(actor.incarnation, "time")}</small>` : ""}`],
    ["Restart limit", restarts && html`${restarts.allowed !== null && html`<${Pips} used=${restarts.used} limit=${restarts.allowed} /> `}${restartsText(restarts)}${restarts.is_shared ? html` <small>shared by all children</small>` : ""}${restarts.allowed === null ? html` <small>no limit</small>` : ""}`],
    ["Last failure", last && html`<span class="facts-failure">${visible(last.reason)}</span> <small>${duration(last.ago_us)} ago${last.message ? html`, handling <${Code} text=${last.message} />` : ""}${last.origin && last.origin !== member.path ? html`, first at <${Path} path=${last.origin} process=${process} />` : ""}</small>`],
    ["Up for", member.up_for_us !== null && member.up_for_us !== undefined && duration(member.up_for_us)],
    ["Workers", member.pool_size && count(member.pool_size)],
    ["Children", member.children > 0 && html`<a href=${link("/tree", { process, path: member.path })}>${count(member.children)}</a>`],
    ["Id", html`<span class="num">${member.id}</span>`],
  ].filter(([, text]) => text);
  return html`<${Section} title="Facts"><dl class="card facts">${lines.map(([title, text]) => html`<div key=${title}><dt>${title}</dt><dd>${text}</dd></div>`)}</dl><//>`;
}
