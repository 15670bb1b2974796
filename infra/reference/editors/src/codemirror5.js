// CodeMirror 5 in its plain text mode: keys go to a hidden textarea, and what was typed is painted beside it. Nameless,
// as it comes. Cm5.mount(node, {label, onText})
import CodeMirror from "codemirror5";
import css from "codemirror5/lib/codemirror.css" with { type: "text" };
import { makeHandle } from "./handle";
import { addStyles } from "./styles";

export function mount(node, { label, onText = () => {} } = {}) {
  addStyles(css);
  const editor = CodeMirror(node, { lineWrapping: true, lineNumbers: true, screenReaderLabel: label });
  editor.on("change", () => onText(editor.getValue()));
  return makeHandle({ element: node, read: () => editor.getValue(), write: (text) => editor.setValue(text) });
}
