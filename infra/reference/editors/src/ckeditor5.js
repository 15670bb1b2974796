// CKEditor 5, its classic kind: toolbar and editable take the place of the node. Ck5.mount(node, {label, onText}) gives
// a promise of its handle. Without a label it names itself.
import { Bold, ClassicEditor, Essentials, Italic, Paragraph } from "ckeditor5";
import css from "ckeditor5/ckeditor5-editor.css" with { type: "text" };
import { makeHandle } from "./handle";
import { toMarkup } from "./markup";
import { addStyles } from "./styles";

export async function mount(node, { label, onText = () => {} } = {}) {
  addStyles(css);
  const editor = await ClassicEditor.create({
    attachTo: node,
    licenseKey: "GPL",
    root: label ? { label } : {},
    plugins: [Essentials, Paragraph, Bold, Italic],
    toolbar: ["undo", "redo", "bold", "italic"],
  });
  const { model } = editor;
  const readBlock = (block) => [...model.createRangeIn(block).getItems()]
    .map((item) => (item.is("$textProxy") ? item.data : "")).join("");
  const read = () => [...model.document.getRoot().getChildren()].map(readBlock).join("\n");
  model.document.on("change:data", () => onText(read()));
  return makeHandle({ element: editor.ui.element, read, write: (text) => editor.setData(toMarkup(text)) });
}
