// Editor.js with the paragraphs it comes with: an editable element for each block. Blocks.mount(node, {placeholder,
// onText}) gives a promise of its handle.
import EditorJS from "@editorjs/editorjs";
import { makeHandle } from "./handle";

// A paragraph's data is HTML.
const makeBlock = (text) => {
  const data = Object.assign(document.createElement("p"), { textContent: text }).innerHTML;
  return { type: "paragraph", data: { text: data } };
};

export async function mount(node, { placeholder, onText = () => {} } = {}) {
  const editor = new EditorJS({ holder: node, placeholder, minHeight: 60, onChange: () => onText(read()) });
  await editor.isReady;
  const { blocks } = editor;
  // A block keeps its text in its own element until it is saved, which takes a promise.
  const readBlock = (index) => blocks.getBlockByIndex(index).holder.textContent;
  const read = () => Array.from({ length: blocks.getBlocksCount() }, (_, index) => readBlock(index)).join("\n");
  return makeHandle({
    element: node,
    read,
    write: (text) => (text ? blocks.render({ blocks: text.split("\n").map(makeBlock) }) : blocks.clear()),
  });
}
