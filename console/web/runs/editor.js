// A text editor for JSON: CodeMirror in a shadow root.
//
// The content policy of the page forbids style elements. In a shadow root CodeMirror uses adopted
// style sheets, which it allows. The module is loaded when the first editor is shown. If it cannot be
// loaded, a plain text area with line numbers takes its place.
//
// The text of the editor is the text that is sent: nothing parses and writes it again.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";

/** How the editor looks; the colours are the tokens of the page, which cross into a shadow root. */
const LOOK = {
  "&": { color: "var(--text)", backgroundColor: "var(--sunken)", fontSize: "0.875rem", height: "100%", minHeight: "14rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--text-3)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 8%, transparent)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent) !important" },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-textfield": { backgroundColor: "var(--sunken)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--sunken)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-specialChar": { color: "var(--error)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--surface)", color: "var(--text-3)", borderColor: "var(--line)" },
};

/**
 * Shows `text` for editing. `onText` gets every change. `problem` (`at`, `text`) is shown at its
 * place. `label` names the editor for screen readers.
 */
export function Editor({ text, onText, problem, label, isReadOnly }) {
  const [module, setModule] = useState(null);
  const [hasFailed, setHasFailed] = useState(false);
  useEffect(() => {
    import("../vendor/codemirror.js").then(setModule, () => setHasFailed(true));
  }, []);
  const shared = { text, onText, problem, label, isReadOnly };
  if (hasFailed) return html`<${PlainEditor} ...${shared} />`;
  if (!module) return html`<p class="editor-loading">Loading the editor…</p>`;
  return html`<${CodeEditor} module=${module} ...${shared} />`;
}

function CodeEditor({ module, text, onText, problem, label, isReadOnly }) {
  const host = useRef(null);
  const view = useRef(null);
  const report = useRef(onText);
  report.current = onText;
  // Texts that were typed and have not come back as `text` yet. They must not replace later ones.
  const typed = useRef([]);
  const onTyped = (changed) => {
    if (typed.current === null) return;
    typed.current.push(changed);
    report.current?.(changed);
  };
  useLayoutEffect(() => {
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const extensions = extensionsOf(module, label, isReadOnly, onTyped);
    view.current = new module.EditorView({ doc: text, extensions, root, parent: root });
    return () => view.current.destroy();
  }, [module, label, isReadOnly]);
  useEffect(() => {
    const editor = view.current;
    const at = typed.current.lastIndexOf(text);
    if (at >= 0) {
      typed.current = typed.current.slice(at + 1);
    } else if (editor.state.doc.toString() !== text) {
      typed.current = null;
      editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
      typed.current = [];
    }
  }, [text]);
  useEffect(() => {
    const editor = view.current;
    const at = Math.min(problem?.at ?? 0, editor.state.doc.length);
    const line = editor.state.doc.lineAt(at);
    const marks = problem ? [{ from: Math.min(at, line.to), to: Math.min(at + 1, line.to), severity: "error", message: problem.text }] : [];
    editor.dispatch(module.setDiagnostics(editor.state, marks));
    if (problem) editor.dispatch({ selection: { anchor: at }, scrollIntoView: true });
  }, [module, problem]);
  return html`<div class="editor" ref=${host}></div>`;
}

function extensionsOf(module, label, isReadOnly, onText) {
  const { EditorState, EditorView, keymap, tags } = module;
  const style = (tag, colour) => ({ tag, color: `var(${colour})` });
  const colours = module.HighlightStyle.define([
    style(tags.propertyName, "--code-key"), style(tags.string, "--code-string"), style(tags.number, "--code-number"),
    style([tags.bool, tags.null], "--code-word"),
  ]);
  return [
    module.lineNumbers(), module.foldGutter(), module.lintGutter(), module.highlightSpecialChars(), module.history(),
    module.drawSelection(), module.bracketMatching(), module.highlightActiveLine(), module.highlightActiveLineGutter(),
    module.highlightSelectionMatches(), module.search({ top: true }), module.json(), module.syntaxHighlighting(colours),
    // Tab leaves the editor, as everywhere on the page.
    keymap.of([...module.searchKeymap, ...module.historyKeymap, ...module.foldKeymap, ...module.defaultKeymap]),
    EditorView.lineWrapping, EditorView.theme(LOOK), EditorState.tabSize.of(2),
    EditorState.readOnly.of(Boolean(isReadOnly)), EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
    EditorView.updateListener.of((update) => update.docChanged && onText(update.state.doc.toString())),
  ];
}

/** The stand-in: a text area that grows with its text, and the numbers of its lines. */
export function PlainEditor({ text, onText, problem, label, isReadOnly }) {
  const area = useRef(null);
  useEffect(() => {
    if (!problem) return;
    area.current.focus();
    area.current.setSelectionRange(problem.at, problem.at + 1);
  }, [problem]);
  const lines = text.split("\n").length;
  const numbers = Array.from({ length: Math.min(lines, 10_000) }, (_, at) => at + 1).join("\n");
  return html`<div class="plain-editor">
    <pre class="line-numbers" aria-hidden="true">${numbers}</pre>
    <textarea ref=${area} aria-label=${label} aria-invalid=${Boolean(problem)} rows=${Math.min(Math.max(lines, 8), 10_000)}
      spellcheck=${false} wrap="off" readonly=${isReadOnly} value=${text} onInput=${(event) => onText?.(event.target.value)}></textarea>
  </div>`;
}
