// The page: finds the token, connects, and draws the page of the URL.

import { effect, html, render, useEffect, useRef, useState } from "./lib.js";
import { answerTabs, findToken, isRefused, token } from "./api.js";
import { Dialogs } from "./dialog.js";
import { startKeys } from "./keys.js";
import { connection, startLive } from "./live.js";
import { openHelp, openPalette } from "./palette.js";
import { link, place, startRouter } from "./router.js";
import { pageOf } from "./routes.js";
import { Header, TokenPage, Unknown } from "./shell.js";
import { readConsole, shown } from "./sources.js";
import { Boundary, Empty, Failed, Loading } from "./states.js";
import { PageHead } from "./ui.js";
import { visible } from "./text.js";

/** How often the console is asked again what it shows. */
const CONSOLE_MS = 15_000;

const modules = new Map();

/** Loads the module of a page, once. */
function useModule(page) {
  const [loaded, setLoaded] = useState({ page: null });
  useEffect(() => {
    if (!page) return undefined;
    // A module that arrives after the reader has gone to another page must not replace that page.
    let isWanted = true;
    const show = (result) => isWanted && setLoaded({ page, ...result });
    if (!modules.has(page)) modules.set(page, page.load());
    modules.get(page).then(
      ({ Page }) => show({ Page }),
      (error) => {
        modules.delete(page);
        show({ error: { code: "not_loaded", text: String(error.message), advice: "Load the page again. If the console was updated, this gets the new version." } });
      },
    );
    return () => {
      isWanted = false;
    };
  }, [page]);
  return loaded.page === page ? loaded : { page: null };
}

function App() {
  if (!token.value || isRefused.value) return html`<${TokenPage} onToken=${() => location.reload()} />`;
  return html`<a class="skip" href="#main">Skip to the content</a><${Header} /><${Main} /><${Dialogs} />`;
}

function Main() {
  const { route, params } = place.value;
  const page = pageOf(route);
  const { Page, error } = useModule(page);
  const main = useRef(null);
  const former = useRef(route);
  useEffect(() => {
    document.title = [page?.title ?? page?.name ?? "Not found", shown.value?.name, "pleach"].filter(Boolean).join(" · ");
  }, [route, shown.value?.name]);
  useEffect(() => {
    if (!Page || former.current === route) return;
    former.current = route;
    main.current.querySelector("h1")?.focus({ preventScroll: true });
  }, [route, Page]);
  let content;
  if (!page) content = html`<${PageHead} title="Not found" /><${Empty} icon="search" title="No such page" text=${visible(route)}><p><a href=${link("/")}>Go home</a></p><//>`;
  else if (error) content = html`<${Failed} title="This page could not be loaded" error=${error} onRetry=${() => location.reload()} />`;
  else if (!shown.value) content = html`<${Unknown} />`;
  else if (!Page) content = html`<${Loading} rows=${6} />`;
  else content = html`<${Page} params=${params} />`;
  return html`<main id="main" ref=${main} class="main" tabindex="-1" data-route=${route}><${Boundary} of=${route}>${content}<//></main>`;
}

/** Reads what the console shows at the start, after each connection, and now and then. */
function followConsole() {
  let before = null;
  effect(() => {
    const { state } = connection.value;
    if (state === "connected" && before !== "connected" && token.value) void readConsole();
    before = state;
  });
  setInterval(() => document.visibilityState === "visible" && !isRefused.value && void readConsole(), CONSOLE_MS);
}

async function start() {
  startRouter();
  startKeys({ openPalette, openHelp });
  addEventListener("hashchange", async () => {
    const former = token.value;
    await findToken();
    if (token.value !== former) location.reload();
  });
  const known = await findToken();
  answerTabs();
  const root = document.getElementById("app");
  root.replaceChildren();
  render(html`<${App} />`, root);
  if (!known) return;
  void readConsole();
  startLive(known);
  followConsole();
}

void start();
