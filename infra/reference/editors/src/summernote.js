// Summernote without Bootstrap, in jQuery's way: its own elements come after the node, which is hidden. Nameless and
// without a role. Note.mount(node, {placeholder, onText})
import $ from "jquery";
import "summernote/dist/summernote-lite.js";
import css from "summernote/dist/summernote-lite.css" with { type: "text" };
import { makeHandle } from "./handle";
import { toLines, toMarkup } from "./markup";
import { addStyles } from "./styles";

export function mount(node, { placeholder, onText = () => {} } = {}) {
  // Its icons are a font of its own, which a page would have to fetch.
  addStyles(css.replace(/@font-face\s*\{[^}]*\}/g, ""));
  const field = $(node);
  field.summernote({
    placeholder,
    height: 120,
    toolbar: [["style", ["bold", "italic", "clear"]]],
    callbacks: { onChange: (html) => onText(toLines(html)) },
  });
  return makeHandle({
    element: field.next(".note-editor")[0],
    read: () => toLines(field.summernote("code")),
    write: (text) => field.summernote("code", text && toMarkup(text)),
  });
}
