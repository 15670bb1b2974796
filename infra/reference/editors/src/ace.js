// ACE in its plain text mode: keys go to a textarea of a few pixels, and what was typed is painted beside it.
// Ace.mount(node, {label, onText})
import ace from "ace-builds/src-min-noconflict/ace";
import { makeHandle } from "./handle";

export function mount(node, { label, onText = () => {} } = {}) {
  const editor = ace.edit(node, { enableKeyboardAccessibility: false, useWorker: false });
  if (label) editor.textInput.getElement().setAttribute("aria-label", label);
  editor.session.on("change", () => onText(editor.getValue()));
  return makeHandle({ element: node, read: () => editor.getValue(), write: (text) => editor.setValue(text, 1) });
}
