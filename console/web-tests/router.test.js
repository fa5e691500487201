import assert from "node:assert/strict";
import { test } from "node:test";
import { hrefOf, objectOf, placeOf } from "../web/router.js";

test("a place survives its URL", () => {
  const params = { process: "p0", path: "/user/a b/ü?&=#%2F", open: ["/", "/user/x,y"], contains: "+ %" };
  const { route, params: read } = placeOf(`http://127.0.0.1:7000${hrefOf("/tree", params)}`);
  assert.equal(route, "/tree");
  assert.deepEqual(objectOf(read), params);
});

test("empty parameters are left out and slashes stay readable", () => {
  assert.equal(hrefOf("/member", { path: "/user/till", process: null, store: undefined, contains: "", show: false, all: true }), "/member?path=/user/till&all=1");
  assert.equal(hrefOf("/"), "/");
});

test("trailing slashes are ignored, except for home", () => {
  assert.equal(placeOf("http://host/tree///").route, "/tree");
  assert.equal(placeOf("http://host/").route, "/");
});
