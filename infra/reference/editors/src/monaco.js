// Monaco's core, without languages: keys go to an element that has an EditContext, so that it is neither a text field
// nor contenteditable. Monaco.mount(node, {label, onText}); its styles are the bundle of the same name.
import * as monaco from "monaco-editor/editor/editor.api";
import { makeHandle } from "./handle";

const STYLES = document.currentScript.src.replace(/\.js$/, ".css");

export function mount(node, { label, onText = () => {} } = {}) {
  const styles = Object.assign(document.createElement("link"), { rel: "stylesheet", href: STYLES });
  document.head.append(styles);
  const editor = monaco.editor.create(node, {
    language: "plaintext",
    ariaLabel: label,
    editContext: true,
    automaticLayout: true,
    minimap: { enabled: false },
    wordBasedSuggestions: "off",
    quickSuggestions: false,
  });
  editor.onDidChangeModelContent(() => onText(editor.getValue()));
  return makeHandle({ element: node, read: () => editor.getValue(), write: (text) => editor.setValue(text) });
}
