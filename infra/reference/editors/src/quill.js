// Quill without a toolbar, named as its host page names it, or nameless. Rich.mount(node, {label, placeholder, onText})
import Quill from "quill";
import css from "quill/dist/quill.core.css" with { type: "text" };
import { makeHandle } from "./handle";
import { addStyles } from "./styles";

export function mount(node, { label, placeholder, onText = () => {} } = {}) {
  addStyles(css);
  const quill = new Quill(node, { placeholder, modules: { toolbar: false } });
  if (label) {
    quill.root.setAttribute("role", "textbox");
    quill.root.setAttribute("aria-multiline", "true");
    quill.root.setAttribute("aria-label", label);
  }
  quill.on("text-change", () => onText(quill.getText().trim()));
  return makeHandle({ element: node, read: () => quill.getText(), write: (text) => quill.setText(text) });
}
