// What surrounds every page: the header with name, environment and connection, and the navigation.

import { classes, html, useEffect, useState } from "./lib.js";
import { isRefused, setToken, token } from "./api.js";
import { connection, retryNow } from "./live.js";
import { go, hrefOf, link, objectOf, place } from "./router.js";
import { PAGES, pageOf } from "./routes.js";
import { process, readConsole, shown, shownError, store } from "./sources.js";
import { chooseZone, shortTime, zone, zoneName } from "./time.js";
import { Icon } from "./icons.js";
import { openHelp, openPalette } from "./palette.js";
import { Announce, Badge, Button, Time } from "./ui.js";
import { Failed, Loading } from "./states.js";
import { plural, visible } from "./text.js";

const COLOURS = ["red", "amber", "green", "blue", "violet", "grey"];

/** The colour of the environment, if it is one that the console knows. */
const colourOf = (environment) => (COLOURS.includes(environment?.colour) ? environment.colour : "grey");

/** The header. */
export function Header() {
  const { name, environment, is_read_only: isReadOnly } = shown.value ?? {};
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [place.value]);
  return html`<header class=${classes("header", environment && `env-${colourOf(environment)}`)}>
    <button type="button" class="button button-quiet button-bare menu-button" aria-label="Pages" aria-expanded=${String(isOpen)} aria-controls="nav" onClick=${() => setOpen(!isOpen)}><${Icon} name="menu" /></button>
    <a class="brand" href=${link("/")}><span class="brand-mark" aria-hidden="true"></span><span class="brand-name">${visible(name ?? "pleach")}</span></a>
    ${environment?.name && html`<span class="env-badge" title="The environment of this console">${visible(environment.name)}</span>`}
    ${isReadOnly && html`<${Badge} icon="lock" title="This console only looks. Every action is refused.">read-only<//>`}
    <${Sources} />
    <span class="header-room"></span>
    <${Connection} />
    <${Button} kind="quiet" class="palette-button" icon="search" label="Go to or do (Ctrl K)" onClick=${openPalette}><span class="wide-only">Go to … </span><kbd class="wide-only">Ctrl K</kbd><//>
    <${Nav} isOpen=${isOpen} /></header>`;
}

/** Chooses among several processes and stores. */
function Sources() {
  const { processes = [], stores = [] } = shown.value ?? {};
  return html`<span class="sources">
    <${Source} label="Process" list=${processes} chosen=${process.value} name="process" />
    <${Source} label="Store" list=${stores} chosen=${store.value} name="store" /></span>`;
}

function Source({ label, list, chosen, name }) {
  if (list.length === 0) return null;
  const problem = chosen?.problem;
  const mark = problem && html`<span class="source-problem" title=${visible(problem)}><${Icon} name="warning" size=${12} label=${`${label} cannot be read`} /></span>`;
  if (list.length === 1) return html`<span class="source"><small>${label}</small> <span class="source-name" title=${visible(list[0].target ?? "")}>${visible(list[0].name)}</span>${mark}</span>`;
  const onChange = (event) => go(hrefOf(pageOf(place.value.route)?.under ?? place.value.route, { ...(pageOf(place.value.route)?.under ? {} : keptParams()), [name]: event.currentTarget.value }));
  return html`<label class="source"><small>${label}</small> <select onChange=${onChange} value=${chosen?.key}>
    ${list.map(({ key, name: text, pid, problem: trouble }) => html`<option key=${key} value=${key} selected=${key === chosen?.key}>${visible(text)}${pid ? ` (${pid})` : ""}${trouble ? " – cannot be read" : ""}</option>`)}</select>${mark}</label>`;
}

/** The chosen sources; what else the URL says belongs to the former one. */
function keptParams() {
  const { process: one, store: other } = objectOf(place.value.params);
  return { process: one, store: other };
}

/** The state of the connection, with the time of the last picture. */
function Connection() {
  const { state, since, at, gaps, error } = connection.value;
  const asOf = at && html`<span class="as-of">as of <${Time} at=${at} /></span>`;
  const text = {
    connected: "Connected", connecting: "Connecting", refused: "Refused", disconnected: `Disconnected since ${shortTime(new Date(since), zone.value)}`,
  }[state];
  const tone = { connected: "ok", connecting: "quiet", refused: "error", disconnected: "warning" }[state];
  const gapText = gaps > 0 ? `${plural(gaps, "time")} updates were missing; the picture was read again.` : undefined;
  return html`<span class="connection" title=${[error?.text, gapText].filter(Boolean).map((part) => visible(part)).join(" ") || undefined}>
    <${Badge} tone=${tone} icon=${state === "connecting" ? "clock" : undefined}>${text}<//>
    ${gaps > 0 && html`<span class="gaps">${plural(gaps, "gap")} repaired</span>`}
    ${asOf}${state === "disconnected" && html`<${Button} kind="quiet" onClick=${() => {
      retryNow();
      void readConsole();
    }}>Connect now<//>`}
    <${Announce} text=${text} /></span>`;
}

/** The pages. */
function Nav({ isOpen }) {
  const { route } = place.value;
  const current = pageOf(route)?.under ?? route;
  const { processes, stores } = shown.value ?? {};
  const isThere = (group) => !(group === "Process" && processes?.length === 0) && !(group === "Runs" && stores?.length === 0);
  const groups = [...new Set(PAGES.map(({ group }) => group).filter(Boolean))].filter(isThere);
  return html`<nav id="nav" class=${classes("nav", isOpen && "nav-open")} aria-label="Pages">
    ${groups.map((group) => html`<div class="nav-group" key=${group}><p class="nav-title">${group}</p><ul>
      ${PAGES.filter((page) => page.group === group).map((page) => html`<li key=${page.route}><a href=${link(page.route)} aria-current=${page.route === current ? "page" : undefined}><${Icon} name=${page.icon} />${page.title}</a></li>`)}</ul></div>`)}
    <${Settings} /></nav>`;
}

const THEMES = [["auto", "System", "auto"], ["light", "Light", "sun"], ["dark", "Dark", "moon"]];

/** Theme, zone and keys: kept in the browser only. */
function Settings() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "auto");
  const choose = (name) => {
    setTheme(name);
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    try {
      localStorage.setItem("pleach.theme", name);
    } catch {
      // Not kept; it holds for this page.
    }
  };
  return html`<div class="settings">
    <div class="choice" role="group" aria-label="Theme">${THEMES.map(([name, text, icon]) => html`<button type="button" key=${name} aria-pressed=${String(theme === name)} title=${`${text} theme`} aria-label=${text} onClick=${() => choose(name)}><${Icon} name=${icon} size=${14} /></button>`)}</div>
    <div class="choice" role="group" aria-label="Zone of times"><button type="button" aria-pressed=${String(zone.value === "utc")} onClick=${() => chooseZone("utc")}>UTC</button>
      <button type="button" aria-pressed=${String(zone.value === "local")} onClick=${() => chooseZone("local")}>${zoneName("local") === "UTC" ? "Local" : zoneName("local")}</button></div>
    <button type="button" class="button button-quiet button-bare" aria-label="Keys" title="Keys (?)" onClick=${openHelp}><kbd>?</kbd></button></div>`;
}

/** Asks for the token, because no tab knows it or the console refused it. */
export function TokenPage({ onToken }) {
  const submit = (event) => {
    event.preventDefault();
    const text = event.currentTarget.elements.token.value.trim();
    if (!text) return;
    setToken(text.includes("#") ? text.split("#")[1].replace(/^token=/, "") : text);
    onToken();
  };
  return html`<main class="token-page"><h1 tabindex="-1">${isRefused.value ? "The token is not valid" : "This console needs its token"}</h1>
    <p>${isRefused.value ? "The console was probably started again, with a new token." : "The token is in the URL that the console printed when it started."} Open that URL, or paste it here.</p>
    <form onSubmit=${submit}><label class="field"><span>URL or token</span><input name="token" type="password" autocomplete="off" required /></label>
      <button type="submit" class="button button-primary">Open the console</button></form>
    <p class="note">The token stays in this tab of the browser. It is sent only to ${location.host}.</p></main>`;
}

/** What is shown while the console has not said what it shows. */
export function Unknown() {
  if (shownError.value && token.value) return html`<${Failed} title="The console could not be asked" error=${shownError.value} onRetry=${readConsole} />`;
  return html`<${Loading} rows=${6} />`;
}
