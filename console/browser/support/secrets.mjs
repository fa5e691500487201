// Looks for the secrets of the program in texts.

/** Collects where a secret is, with what stands around it. */
export class Leaks {
  #secrets;
  found = [];
  /** How many texts were examined, and their characters. */
  texts = 0;
  characters = 0;

  constructor(secrets) {
    this.#secrets = secrets;
  }

  look(where, text) {
    this.texts += 1;
    this.characters += text.length;
    for (const secret of this.#secrets) {
      const at = text.indexOf(secret);
      if (at >= 0) this.found.push(`${where}: ${text.slice(Math.max(0, at - 80), at + secret.length + 20)}`);
    }
  }
}
