// The pages: their routes, titles, and the modules that draw them, which are loaded when needed.
//
// A module exports `Page`, a component that gets the parameters of the URL as `params`
// (`URLSearchParams`). It draws its own `PageHead`.

/** `group` is the part of the navigation; pages without `title` are reached from others. */
export const PAGES = [
  { route: "/", title: "Home", icon: "home", group: "Now", load: () => import("./process/home.js") },
  { route: "/tree", title: "Tree", icon: "tree", group: "Process", load: () => import("./process/tree.js") },
  { route: "/member", name: "Member", under: "/tree", load: () => import("./process/member.js") },
  { route: "/failures", title: "Failures", icon: "failures", group: "Process", load: () => import("./process/failures.js") },
  { route: "/runs", title: "Runs", icon: "runs", group: "Runs", load: () => import("./runs/list.js") },
  { route: "/run", name: "Run", under: "/runs", load: () => import("./runs/run.js") },
  { route: "/waiting", title: "Waiting for people", icon: "people", group: "Runs", load: () => import("./runs/waiting.js") },
  { route: "/workers", title: "Workers", icon: "workers", group: "Runs", load: () => import("./runs/workers.js") },
  { route: "/deploy", title: "Deploy check", icon: "deploy", group: "Runs", load: () => import("./runs/deploy.js") },
  { route: "/actions", title: "Actions", icon: "actions", group: "Record", load: () => import("./process/actions.js") },
];

/** The page of a route, or null. */
export function pageOf(route) {
  return PAGES.find((page) => page.route === route) ?? null;
}
