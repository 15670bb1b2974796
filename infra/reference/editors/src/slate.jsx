// Slate with its history, as its plain text example has it: nameless, with the role that the library gives.
// Slate.mount(node, {label, placeholder, onText})
import React, { useState } from "react";
import { flushSync } from "react-dom";
import { createRoot } from "react-dom/client";
import { Editor, Node, Transforms, createEditor } from "slate";
import { withHistory } from "slate-history";
import { Editable, Slate, withReact } from "slate-react";
import { makeHandle } from "./handle";

const makeLines = (text) => text.split("\n").map((line) => ({ type: "paragraph", children: [{ text: line }] }));

function Composer({ editor, label, placeholder, onChange }) {
  const [empty] = useState(() => makeLines(""));
  return (
    <Slate editor={editor} initialValue={empty} onChange={onChange}>
      <Editable aria-label={label} placeholder={placeholder} style={{ minHeight: 60 }} />
    </Slate>
  );
}

export function mount(node, { label, placeholder, onText = () => {} } = {}) {
  const editor = withHistory(withReact(createEditor()));
  const read = () => editor.children.map((line) => Node.string(line)).join("\n");
  const write = (text) => Editor.withoutNormalizing(editor, () => {
    // What was selected may not be there any more.
    Transforms.deselect(editor);
    while (editor.children.length) Transforms.removeNodes(editor, { at: [0] });
    Transforms.insertNodes(editor, makeLines(text), { at: [0] });
  });
  const composer = <Composer editor={editor} label={label} placeholder={placeholder} onChange={() => onText(read())} />;
  flushSync(() => createRoot(node).render(composer));
  return makeHandle({ element: node, read, write });
}
