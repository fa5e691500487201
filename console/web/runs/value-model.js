// Pointers and sizes of values. Pure.

/** Returns the JSON pointer of an entry. */
export function child(pointer, key) {
  return `${pointer}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** Returns a size in words: `312 bytes`, `2.4 KB`, `1.1 MB`. */
export function sizeText(bytes) {
  if (bytes < 1000) return `${bytes} ${bytes === 1 ? "byte" : "bytes"}`;
  const [size, unit] = bytes < 1_000_000 ? [bytes / 1000, "KB"] : [bytes / 1_000_000, "MB"];
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${unit}`;
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
