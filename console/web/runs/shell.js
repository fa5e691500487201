// Commands as a shell reads and writes them.

const PLAIN = /^[A-Za-z0-9\-_./:@%+,=]+$/;
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;
const CONTROLS = new RegExp(CONTROL, "g");

/** Quotes a word, if needed. Control characters become escapes, so that a terminal shows them. */
export function quoted(word) {
  if (PLAIN.test(word)) return word;
  if (!CONTROL.test(word)) return `'${word.replaceAll("'", "'\\''")}'`;
  const escaped = word.replace(/['\\]/g, "\\$&").replace(CONTROLS, (character) =>
    [...new TextEncoder().encode(character)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join(""));
  return `$'${escaped}'`;
}

/** Joins words to one command. */
export function command(...words) {
  return words.map(quoted).join(" ");
}

/** Splits a pasted command into words. Understands `'…'`, `"…"`, `$'…'` and backslashes. */
export function split(text) {
  const words = [];
  let word = null;
  const parts = /(\s+)|\$'((?:[^'\\]|\\.)*)'|'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^\s'"\\$]+|.)/gsu;
  for (const [, space, dollar, single, double, escaped, plain] of text.matchAll(parts)) {
    if (space !== undefined) {
      if (word !== null) words.push(word);
      word = null;
      continue;
    }
    word = (word ?? "") + (single ?? escaped ?? plain ?? (dollar !== undefined ? unescapeDollar(dollar) : double.replace(/\\(["\\$`])/g, "$1")));
  }
  if (word !== null) words.push(word);
  return words;
}

function unescapeDollar(text) {
  const bytes = [];
  const encoder = new TextEncoder();
  for (const [, hex, escaped, plain] of text.matchAll(/\\x([0-9a-fA-F]{1,2})|\\(.)|([^\\]+)/gsu)) {
    if (hex) bytes.push(parseInt(hex, 16));
    else bytes.push(...encoder.encode(plain ?? { n: "\n", t: "\t", r: "\r" }[escaped] ?? escaped));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}
