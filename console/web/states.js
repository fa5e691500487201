// What a view looks like while it is loading, empty, failed or out of date. These can never be
// confused: only a view that was answered can be empty.

import { Component, html } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Time } from "./ui.js";
import { visible } from "./text.js";

/**
 * Shows a view. `of` is what `useLive` or `useOnce` returned, `children` is called with its value.
 * `isEmpty(value)` decides whether `empty` is shown instead.
 */
export function Shown({ of, children, isEmpty, empty, rows = 4 }) {
  if (of.status === "loading") return html`<${Loading} rows=${rows} />`;
  if (of.status === "error") return html`<${Failed} error=${of.error} onRetry=${of.reload} />`;
  const isNothing = isEmpty?.(of.value);
  const content = typeof children === "function" ? children : children?.[0];
  return html`${of.isOld && html`<${OutOfDate} of=${of} />`}${isNothing ? html`<${Empty} ...${empty} />` : content(of.value)}`;
}

/** The place of rows that are on their way. */
export function Loading({ rows = 4, label = "Loading" }) {
  return html`<div class="loading" role="status"><span class="unseen">${label}</span>
    ${Array.from({ length: rows }, (_, index) => html`<span class="bone" key=${index} aria-hidden="true"></span>`)}</div>`;
}

/** Nothing is there, and that is known. `text` says what was looked for. */
export function Empty({ title = "Nothing here", text, icon = "ok", children }) {
  return html`<div class="empty"><${Icon} name=${icon} size=${20} /><p class="empty-title">${title}</p>${text && html`<p>${text}</p>`}${children}</div>`;
}

/** A view that could not be answered. */
export function Failed({ error, title = "This could not be read", onRetry }) {
  return html`<div class="failed" role="alert"><${Icon} name="error" size=${20} /><div><p class="failed-title">${title}</p>
    <p class="failed-text">${visible(error.text, { lines: true })} <code class="code">${visible(error.code)}</code></p>
    ${error.advice && html`<p>${visible(error.advice, { lines: true })}</p>`}
    ${onRetry && html`<${Button} onClick=${onRetry}>Try again<//>`}</div></div>`;
}

/** The value below was read before, and may have changed. */
export function OutOfDate({ of }) {
  return html`<div class=${of.error ? "old-note" : "old-note old-note-late"} role="status"><${Icon} name="clock" size=${14} />
    <span><strong>Out of date.</strong> ${of.at && html`As of <${Time} at=${of.at} />.`} ${of.error && visible(of.error.text)}</span>
    ${of.reload && html`<${Button} kind="quiet" onClick=${of.reload}>Try again<//>`}</div>`;
}

/** Part of a list is missing, and this says which. */
export function Missing({ children }) {
  return html`<p class="missing"><${Icon} name="warning" size=${14} /><span>${children}</span></p>`;
}

/** Keeps an error of the page itself from taking the rest with it. */
export class Boundary extends Component {
  state = { error: null };

  static getDerivedStateFromError(error) {
    return { error };
  }

  componentDidUpdate(before) {
    if (before.of !== this.props.of && this.state.error) this.setState({ error: null });
  }

  render({ children }, { error }) {
    if (!error) return children;
    const report = { code: "page_error", text: `${error.name}: ${error.message}`, advice: "Please report this. Another page may still work." };
    return html`<${Failed} title="This page has a fault" error=${report} onRetry=${() => this.setState({ error: null })} />`;
  }
}
