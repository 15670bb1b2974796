// Jodit, whose element is neither named nor has a role; the textarea that was there is hidden. What it would fetch from
// elsewhere, an editor and a beautifier for its source mode, is switched off. Jod.mount(textarea, {placeholder, onText})
import { Jodit } from "jodit/es2021/jodit.min.js";
import css from "jodit/es2021/jodit.min.css" with { type: "text" };
import { makeHandle } from "./handle";
import { toLines, toMarkup } from "./markup";
import { addStyles } from "./styles";

export function mount(node, { placeholder = "Type something", onText = () => {} } = {}) {
  addStyles(css);
  const editor = Jodit.make(node, {
    placeholder,
    minHeight: 180,
    buttons: ["bold", "italic", "undo", "redo"],
    sourceEditor: "area",
    beautifyHTML: false,
    events: { change: (html) => onText(toLines(html)) },
  });
  return makeHandle({
    element: editor.container,
    read: () => toLines(editor.value),
    write: (text) => { editor.value = text && toMarkup(text); },
  });
}
