// Toast UI's editor in its first mode, Markdown: two ProseMirrors, of which the other one is hidden. Its statistics,
// which it would send elsewhere, are switched off. Toast.mount(node, {placeholder, onText})
import Editor from "@toast-ui/editor";
import css from "@toast-ui/editor/dist/toastui-editor.css" with { type: "text" };
import { makeHandle } from "./handle";
import { addStyles } from "./styles";

export function mount(node, { placeholder, onText = () => {} } = {}) {
  addStyles(css);
  const editor = new Editor({
    el: node,
    height: "220px",
    placeholder,
    usageStatistics: false,
    events: { change: () => onText(editor.getMarkdown()) },
  });
  return makeHandle({
    element: node,
    read: () => editor.getMarkdown(),
    write: (text) => editor.setMarkdown(text, false),
  });
}
