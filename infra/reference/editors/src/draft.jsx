// Draft.js, mounted as a single-field composer. Draft.mount(node, {label, placeholder, onText})
import { Editor, EditorState } from "draft-js";
import React, { useState } from "react";
import { createRoot } from "react-dom/client";

function Composer({ label, placeholder, onText }) {
  const [state, setState] = useState(() => EditorState.createEmpty());
  const change = (next) => {
    setState(next);
    onText(next.getCurrentContent().getPlainText());
  };
  return (
    <Editor editorState={state} onChange={change} ariaLabel={label} placeholder={placeholder} role="textbox" />
  );
}

export function mount(node, options) {
  createRoot(node).render(<Composer {...options} />);
}
