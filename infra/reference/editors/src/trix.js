// Trix: a custom element that is itself editable, a toolbar before it, and the hidden input that a form would send.
// Trix.mount(node, {label, placeholder, onText}) gives a promise of its handle.
import "trix";
import css from "trix/dist/trix.css" with { type: "text" };
import { makeHandle } from "./handle";
import { toMarkup } from "./markup";
import { addStyles } from "./styles";

export async function mount(node, { label, placeholder, onText = () => {} } = {}) {
  addStyles(css);
  const input = Object.assign(document.createElement("input"), { type: "hidden", name: "content", id: "trix-content" });
  const element = document.createElement("trix-editor");
  element.setAttribute("input", input.id);
  if (label) element.setAttribute("aria-label", label);
  if (placeholder) element.setAttribute("placeholder", placeholder);
  const isReady = new Promise((resolve) => element.addEventListener("trix-initialize", resolve, { once: true }));
  node.append(input, element);
  await isReady;
  const read = () => element.editor.getDocument().toString();
  element.addEventListener("trix-change", () => onText(read()));
  return makeHandle({ element: node, read, write: (text) => element.editor.loadHTML(text && toMarkup(text)) });
}
