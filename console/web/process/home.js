// Home: what is wrong now, why, and what to do; and what was examined and is well.

import { html } from "../lib.js";
import { connection, useLive } from "../live.js";
import { link } from "../router.js";
import { isProcess, shown, sourceOf } from "../sources.js";
import { Icon } from "../icons.js";
import { JsonButton } from "../dialog.js";
import { Announce, Badge, Command, CopyButton, PageHead, Path, Time } from "../ui.js";
import { HeldNote, holdProps, useHeldRows } from "../held.js";
import { Empty, Missing, Shown } from "../states.js";
import { count, plural, sentence, visible } from "../text.js";
import { hrefOfView } from "./links.js";

const QUERY = { view: "home" };

const GROUPS = [
  ["error", "Wrong now", "error"], ["warning", "Worth a look", "warning"], ["waiting", "Waiting for a person", "waiting"],
];

export function Page() {
  const home = useLive(QUERY);
  const problems = useHeldRows(home.value?.problems ?? [], ({ key }) => key, "home");
  return html`<${Announce} text=${home.value ? summary(home.value) : ""} /><${PageHead} title=${html`<${Headline} home=${home} />`} tools=${html`<${JsonButton} query=${QUERY} />`} />
    <${Shown} of=${home} rows=${5}>${(value) => html`<div class="home"><div class="home-problems" ...${holdProps(problems.hold)}><${HeldNote} held=${problems} /><${Problems} ...${value} problems=${problems.rows} /></div>
      <${Examined} quiet=${value.quiet} problems=${value.problems} /></div>`}<//>`;
}

/** One sentence about everything. */
function Headline({ home }) {
  const { value, status, isOld, at } = home;
  if (status === "loading") return "Looking …";
  if (!value) return "Home";
  const text = summary(value);
  return isOld && connection.value.state !== "connected" ? html`${text} <small>as of <${Time} at=${at} /></small>` : text;
}

function summary(value) {
  if (value.problems.length === 0 && value.quiet.length === 0) return "Nothing was examined yet";
  const of = (name) => value.problems.filter(({ severity }) => severity === name).length;
  const [wrong, warnings, waiting] = [of("error"), of("warning"), of("waiting")];
  const more = value.is_cut ? "+" : "";
  if (wrong > 0) return wrong === 1 && !more ? "One thing is wrong" : `${count(wrong)}${more} things are wrong`;
  if (warnings > 0) return warnings === 1 && !more ? "Nothing is wrong, one thing is worth a look" : `Nothing is wrong, ${count(warnings)}${more} things are worth a look`;
  if (waiting > 0) return "Nothing is wrong, something waits for you";
  return "Nothing is wrong";
}

function Problems({ problems, is_cut: isCut, quiet }) {
  const others = problems.filter(({ severity }) => !GROUPS.some(([name]) => name === severity));
  return html`${problems.length === 0 && html`<${AllWell} quiet=${quiet} />`}
    ${GROUPS.map(([name, title, tone], index) => {
      const list = [...problems.filter(({ severity }) => severity === name), ...(index === 1 ? others : [])];
      if (list.length === 0) return null;
      return html`<section class="home-group" key=${name}><h2 class="home-group-title">${title} <span class="count">${count(list.length)}</span></h2>
        ${list.map((problem) => html`<${Problem} key=${problem.key} problem=${problem} tone=${tone} />`)}</section>`;
    })}
    ${isCut && html`<${Missing}>There are more problems than this list holds.<//>`}`;
}

/** A problem: what, since when, why, what follows, and what to do. */
function Problem({ problem, tone }) {
  const { title, cause, so, since, source, path, run, count: number, do: advice = [], kind } = problem;
  const place = sourceOf(source);
  const [first, ...others] = advice;
  return html`<article class=${`problem tone-${tone}`} data-entry tabindex="-1" aria-label=${visible(title)}>
    <span class="problem-mark"><${Icon} name=${tone} label=${tone === "waiting" ? "waits for a person" : tone} size=${18} /></span>
    <div class="problem-body">
      <h3>${visible(sentence(title))}</h3>
      ${cause && html`<p class="problem-cause"><span class="lead">Because</span> <span>${visible(cause)}</span></p>`}
      ${so?.length > 0 && html`<div class="problem-so"><span class="lead">So</span><ul>${so.map((text, index) => html`<li key=${index}>${visible(text)}</li>`)}</ul></div>`}
      <p class="problem-facts"><span title="The kind of problem">${visible(kind).replaceAll("_", " ")}</span>
        ${since && html`<span>since <${Time} at=${since} /> (<${Time} at=${since} form="ago" />)</span>`}
        ${number > 1 && html`<span>${count(number)} of them</span>`}
        ${place && html`<span>${isProcess(source) ? "process" : "store"} ${visible(place.name)}</span>`}
        ${path && html`<${Path} path=${path} process=${source} />`}
        ${run && html`<a class="path" href=${link("/run", { store: source, run })}>${visible(run)}</a>`}</p>
      ${first && html`<div class="problem-do"><${Advice} advice=${first} isFirst />
        ${others.length > 0 && html`<div class="advice">${others.map((item, index) => html`<${Advice} key=${index} advice=${item} />`)}</div>`}</div>`}
    </div></article>`;
}

function Advice({ advice: { text, view, command }, isFirst }) {
  const href = hrefOfView(view);
  return html`<div class="advice">${href ? html`<a class=${`button ${isFirst ? "button-primary" : ""}`} href=${href}>${visible(text)}</a>` : html`<span class="advice-text">${visible(text)}</span>`}
    ${command && (isFirst ? html`<${Command} text=${command} />` : html`<${CopyButton} text=${command} icon="command" label=${`Copy: ${visible(command)}`} />`)}</div>`;
}

function AllWell({ quiet }) {
  if (quiet.length === 0) return html`<${Empty} icon="clock" title="No check has been made yet" text="The sources on this page have not been examined, so nothing is known about them." />`;
  return html`<div class="all-well"><${Icon} name="ok" size=${28} /><div><p class="all-well-title">${plural(quiet.length, "check")} made, all well</p>
    <p class="note">This page changes by itself when something goes wrong.</p></div></div>`;
}

/** What was examined, by source, with what was found well. */
function Examined({ quiet, problems }) {
  const { processes = [], stores = [] } = shown.value ?? {};
  const sources = [...processes.map((source) => ({ ...source, isProcess: true })), ...stores];
  const known = new Set(sources.map(({ key }) => key));
  const rest = quiet.filter(({ source }) => !known.has(source));
  return html`<aside class="examined" aria-label="What was examined"><h2>What was examined</h2>
    ${sources.map((source) => html`<${Source} key=${source.key} source=${source} quiet=${quiet.filter((line) => line.source === source.key)} problems=${problems.filter((problem) => problem.source === source.key)} />`)}
    ${rest.length > 0 && html`<div class="card examined-source"><${Quiet} quiet=${rest} /></div>`}
    ${sources.length === 0 && html`<p class="note">This console has no process and no store.</p>`}</aside>`;
}

function Source({ source, quiet, problems }) {
  const { key, name, kind, pid, version, problem, isProcess: isLive, target } = source;
  const href = isLive ? link("/tree", { process: key }) : link("/runs", { store: key });
  const wrong = problems.filter(({ severity }) => severity === "error").length;
  const facts = isLive ? [pid && `pid ${pid}`, version && `version ${version}`] : [kind];
  return html`<div class="card examined-source"><div class="examined-head"><a href=${href}>${visible(name)}</a>
      <small title=${visible(target ?? "")}>${[isLive ? "process" : "store", ...facts].filter(Boolean).map((fact) => visible(fact)).join(" · ")}</small></div>
    ${problem ? html`<p><${Badge} tone="error">cannot be read<//> ${visible(problem)}</p>` : problems.length > 0 && html`<p class="note">${wrong > 0 ? `${plural(wrong, "thing")} wrong` : plural(problems.length, "problem")}</p>`}
    <${Quiet} quiet=${quiet} />
    ${quiet.length === 0 && problems.length === 0 && !problem && html`<p class="note">Not examined yet.</p>`}</div>`;
}

function Quiet({ quiet }) {
  return html`<ul class="quiet">${quiet.map(({ text }, index) => html`<li key=${index}><${Icon} name="ok" size=${14} label="well:" /><span>${visible(text)}</span></li>`)}</ul>`;
}
