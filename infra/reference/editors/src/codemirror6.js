// CodeMirror 6 with its basic set-up: the editable element is one of the library's own. Cm6.mount(node, {label, onText})
import { EditorView, basicSetup } from "codemirror";
import { makeHandle } from "./handle";

export function mount(node, { label, onText = () => {} } = {}) {
  const view = new EditorView({
    parent: node,
    extensions: [
      basicSetup,
      EditorView.lineWrapping,
      label ? EditorView.contentAttributes.of({ "aria-label": label }) : [],
      EditorView.updateListener.of((update) => update.docChanged && onText(update.state.doc.toString())),
    ],
  });
  return makeHandle({
    element: node,
    read: () => view.state.doc.toString(),
    write: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
  });
}
