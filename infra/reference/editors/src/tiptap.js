// Tiptap with its starter kit. Tiptap.mount(node, {label, onText})
import { Editor } from "@tiptap/core";
import StarterKit from "@tiptap/starter-kit";
import { makeHandle } from "./handle";

const paragraph = (text) => ({ type: "paragraph", content: text ? [{ type: "text", text }] : [] });

export function mount(node, { label, onText = () => {} } = {}) {
  const editor = new Editor({
    element: node,
    extensions: [StarterKit],
    editorProps: { attributes: label ? { "aria-label": label } : {} },
    onUpdate: () => onText(read()),
  });
  const read = () => editor.getText({ blockSeparator: "\n" });
  const write = (text) => editor.commands.setContent({ type: "doc", content: text.split("\n").map(paragraph) });
  return makeHandle({ element: node, read, write });
}
