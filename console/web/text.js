// Texts and numbers as people read them. Pure.

const ODD = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/**
 * Makes control characters, text direction marks and invisible characters visible, as `\u{7}`. With
 * `lines`, line breaks and tabs stay what they are.
 */
export function visible(text, { lines = false } = {}) {
  return String(text ?? "").replace(ODD, (character) => {
    if (lines && (character === "\n" || character === "\t")) return character;
    return `\\u{${character.charCodeAt(0).toString(16)}}`;
  });
}

/** Makes the same characters visible in a JSON text, which stays JSON. Line breaks stay. */
export function visibleJson(text) {
  return text.replace(ODD, (character) => (character === "\n" ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`));
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const ONE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Writes a count with all its digits: 12,345. */
export function count(number) {
  return number === null || number === undefined ? "–" : WHOLE.format(number);
}

/** Writes a count of which only a part was counted: 1,000+. */
export function countAtLeast(number, isCut) {
  return isCut ? `${count(number)}+` : count(number);
}

/** Writes a large count shortly: 1.2M. Counts below 10,000 keep all digits. */
export function short(number) {
  if (number === null || number === undefined) return "–";
  return Math.abs(number) < 10000 ? WHOLE.format(number) : SHORT.format(number);
}

/** Writes a rate per second. */
export function rate(number) {
  if (number === null || number === undefined) return "–";
  if (number !== 0 && Math.abs(number) < 0.1) return "< 0.1";
  return Math.abs(number) < 100 ? ONE.format(number) : short(Math.round(number));
}

/** Writes a size: 640 B, 12 KiB. */
export function bytes(number) {
  if (number === null || number === undefined) return "–";
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (number >= size) return `${ONE.format(number / size)} ${unit}`;
  }
  return `${WHOLE.format(number)} B`;
}

/** Writes a number with its noun: 1 run, 2 runs. */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Writes an identifier such as `waiting_to_restart` as words. */
export function words(name) {
  return visible(String(name ?? "").replaceAll("_", " "));
}

/** Begins with a capital letter. */
export function sentence(text) {
  return text ? text[0].toUpperCase() + text.slice(1) : "";
}

/** Splits the path of a member into the paths of its ancestors and itself, the root first. */
export function pathsTo(path) {
  const paths = ["/"];
  for (let at = path.indexOf("/", 1); at > 0; at = path.indexOf("/", at + 1)) paths.push(path.slice(0, at));
  if (path !== "/") paths.push(path);
  return paths;
}

/** The last part of a path: the name of the member. */
export function nameOf(path) {
  return path === "/" ? "/" : path.slice(path.lastIndexOf("/") + 1);
}

/** The path of the parent, or null for the root. */
export function parentOf(path) {
  if (path === "/") return null;
  const end = path.lastIndexOf("/");
  return end <= 0 ? "/" : path.slice(0, end);
}
