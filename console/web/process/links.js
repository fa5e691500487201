// Where the views that the console names are shown in the page.

import { link } from "../router.js";

/** The URL of a view, or null if no page shows it. */
export function hrefOfView(view) {
  if (!view) return null;
  const { view: name, process, store, path, run, kind, contains, by, filters = {} } = view;
  const to = {
    home: () => link("/"),
    tree: () => link("/tree", { process, path: path === "/" ? null : path }),
    top: () => link("/tree", { process, show: "top", by, contains }),
    not_well: () => link("/tree", { process, show: "not_well" }),
    member: () => link("/member", { process, path }),
    story: () => link("/member", { process, path }),
    failures: () => link("/failures", { process, kind, contains }),
    runs: () => link("/runs", { store, ...runFilters(filters) }),
    run_groups: () => link("/runs", { store, ...runFilters(filters), "group-by": view.group_by }),
    run: () => link("/run", { store, run }),
    timeline: () => link("/run", { store, run }),
    waiting: () => link("/waiting", { store }),
    workers: () => link("/workers", { store }),
    deploy: () => link("/deploy", { store }),
    actions: () => link("/actions"),
  }[name];
  return to ? to() : null;
}

function runFilters({ status = [], failed, graph, tag, id_prefix: prefix, since, before }) {
  return { status: status[0], failed: failed ? "true" : null, graph, tag, "id-prefix": prefix, since, before };
}
