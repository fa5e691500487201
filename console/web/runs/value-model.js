// Pointers and levels of values. Pure.

/** Returns the JSON pointer of an entry. */
export function child(pointer, key) {
  return `${pointer}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** Returns what a level is: `3 fields`, `1 item`, `string`. */
export function levelText(kind, total) {
  const [one, several] = kind === "object" ? ["field", "fields"] : kind === "array" ? ["item", "items"] : [];
  return one ? `${total} ${total === 1 ? one : several}` : kind;
}

/** Returns the size of a value that was left out, or null. */
export function leftOut(value) {
  return value !== null && typeof value === "object" && typeof value.left_out === "number" ? value.left_out : null;
}
