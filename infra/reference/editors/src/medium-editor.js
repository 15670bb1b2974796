// MediumEditor: the element itself is made editable, and a toolbar appears only over what is selected.
// Medium.mount(node, {placeholder, onText})
import MediumEditor from "medium-editor";
import css from "medium-editor/dist/css/medium-editor.min.css" with { type: "text" };
import theme from "medium-editor/dist/css/themes/default.min.css" with { type: "text" };
import { makeHandle } from "./handle";
import { toLines, toMarkup } from "./markup";
import { addStyles } from "./styles";

export function mount(node, { placeholder = "Type your text", onText = () => {} } = {}) {
  addStyles(css + theme);
  const editor = new MediumEditor(node, { placeholder: { text: placeholder } });
  const read = () => toLines(editor.getContent());
  editor.subscribe("editableInput", () => onText(read()));
  return makeHandle({ element: node, read, write: (text) => editor.setContent(text && toMarkup(text)) });
}
