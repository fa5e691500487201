// Every view of the page, by its URL, for the tests that look at all of them.

const query = (parameters) => new URLSearchParams(parameters).toString();

/** Returns `name` and `route` of each view. `line` is what the program printed. */
export function views({ postgres }) {
  const member = (path) => `/member?${query({ process: "p0", path })}`;
  const run = (id, more = {}) => `/run?${query({ store: "s0", run: id, ...more })}`;
  const list = [
    ["home", "/"],
    ["tree", `/tree?${query({ process: "p0" })}`],
    ["member-failing", member("/user/shop/stock")],
    ["member-stuck", member("/user/stuck")],
    ["member-gave-up", member("/user/till")],
    ["member-hostile", member("/user/<img src=x onerror=window.pleachWasHere=1>")],
    ["failures", `/failures?${query({ process: "p0" })}`],
    ["dead-letters", `/failures?${query({ process: "p0", kind: "dead_letters" })}`],
    ["runs", `/runs?${query({ store: "s0" })}`],
    ["runs-failed", `/runs?${query({ store: "s0", status: "failed" })}`],
    ["run-failed", run("failed-00")],
    ["run-waiting", run("waits-0")],
    ["run-fan-out", run("parcels")],
    ["run-long", run("long")],
    ["run-large", run("large")],
    ["run-undone", run("undo-failed")],
    ["run-hostile", run('<script>window.pleachWasHere=1</script><img src=x onerror="window.pleachWasHere=1">')],
    ["waiting", `/waiting?${query({ store: "s0" })}`],
    ["workers", `/workers?${query({ store: "s0" })}`],
    ["deploy", `/deploy?${query({ store: "s0" })}`],
    ["actions", "/actions"],
  ];
  if (postgres) list.push(["runs-postgres", `/runs?${query({ store: "s1" })}`], ["run-postgres", `/run?${query({ store: "s1", run: "waits-0" })}`]);
  return list.map(([name, route]) => ({ name, route }));
}
