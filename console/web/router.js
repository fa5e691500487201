// Where the reader is: the route and the parameters of the URL. All state of a view is here.

import { signal } from "./lib.js";

/** Parameters that links keep unless they say otherwise: the chosen sources. */
const KEPT = ["process", "store"];

/** Reads a URL. Trailing slashes are ignored. */
export function placeOf(url) {
  const { pathname, searchParams } = new URL(url, "http://console.invalid");
  return { route: pathname.replace(/(.)\/+$/, "$1"), params: searchParams };
}

/** Writes a URL. Null, undefined, false and "" leave a parameter out; true is written as `1`. */
export function hrefOf(route, params = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && item !== undefined && item !== false && item !== "") search.append(name, item === true ? "1" : item);
    }
  }
  const text = search.toString().replaceAll("%2F", "/").replaceAll("%3A", ":").replaceAll("%2C", ",");
  return text ? `${route}?${text}` : route;
}

/** The parameters as a plain object; repeated ones as arrays. */
export function objectOf(params) {
  const result = {};
  for (const name of new Set(params.keys())) {
    const all = params.getAll(name);
    result[name] = all.length > 1 ? all : all[0];
  }
  return result;
}

/** The present place. */
export const place = signal(placeOf(globalThis.location?.href ?? "/"));

/** The URL of a place, with the sources that are chosen now. */
export function link(route, params = {}) {
  const kept = {};
  for (const name of KEPT) if (place.value.params.has(name)) kept[name] = place.value.params.get(name);
  return hrefOf(route, { ...kept, ...params });
}

/** Goes to a URL of the page. With `replace` the present entry of the history is changed. */
export function go(href, { replace = false } = {}) {
  const before = place.value.route;
  history[replace ? "replaceState" : "pushState"](null, "", href);
  place.value = placeOf(location.href);
  if (!replace && before !== place.value.route) scrollTo(0, 0);
}

/** Changes some parameters of the present place; the others stay. */
export function change(params, { replace = true } = {}) {
  go(hrefOf(place.value.route, { ...objectOf(place.value.params), ...params }), { replace });
}

/** Follows links of the page and the buttons of the browser. Called once. */
export function startRouter() {
  addEventListener("popstate", () => (place.value = placeOf(location.href)));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const anchor = event.target.closest?.("a[href]");
    if (!anchor || anchor.target || anchor.hasAttribute("download") || anchor.origin !== location.origin) return;
    if (anchor.getAttribute("href").startsWith("#")) return;
    event.preventDefault();
    go(anchor.href);
  });
}
