// Reads a stream of lines of JSON.

/** Calls `take` with each line of an answer, until the answer ends. */
export async function readLines(answer, take) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of answer.body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.trim()) take(JSON.parse(line));
  }
}
