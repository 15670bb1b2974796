// EasyMDE: Markdown in a CodeMirror 5 of its own, whose keys go to a hidden textarea; the textarea that was there is
// hidden too. What it would fetch from elsewhere, an icon font and a dictionary, is switched off.
// Easy.mount(textarea, {placeholder, onText})
import EasyMDE from "easymde/dist/easymde.min.js";
import css from "easymde/dist/easymde.min.css" with { type: "text" };
import { makeHandle } from "./handle";
import { addStyles } from "./styles";

export function mount(node, { placeholder, onText = () => {} } = {}) {
  addStyles(css);
  const editor = new EasyMDE({
    element: node,
    placeholder,
    autoDownloadFontAwesome: false,
    spellChecker: false,
    minHeight: "120px",
    toolbar: ["bold", "italic", "heading", "|", "quote", "link"],
  });
  editor.codemirror.on("change", () => onText(editor.value()));
  return makeHandle({
    element: editor.codemirror.getWrapperElement().parentElement,
    read: () => editor.value(),
    write: (text) => editor.value(text),
  });
}
