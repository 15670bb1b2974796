// Quill without a toolbar, named as its host page names it. Rich.mount(node, {label, placeholder, onText})
import Quill from "quill";
import { makeHandle } from "./handle";

export function mount(node, { label, placeholder, onText }) {
  const quill = new Quill(node, { placeholder, modules: { toolbar: false } });
  quill.root.setAttribute("role", "textbox");
  quill.root.setAttribute("aria-multiline", "true");
  quill.root.setAttribute("aria-label", label);
  quill.on("text-change", () => onText(quill.getText().trim()));
  return makeHandle({ element: node, read: () => quill.getText(), write: (text) => quill.setText(text) });
}
