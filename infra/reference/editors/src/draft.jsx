// Draft.js, mounted as a single-field composer. Draft.mount(node, {label, placeholder, onText})
import { ContentState, Editor, EditorState } from "draft-js";
import React, { useState } from "react";
import { flushSync } from "react-dom";
import { createRoot } from "react-dom/client";
import { makeHandle } from "./handle";

function Composer({ label, placeholder, onText, own }) {
  const [state, setState] = useState(() => EditorState.createEmpty());
  const change = (next) => {
    setState(next);
    onText(next.getCurrentContent().getPlainText());
  };
  own.read = () => state.getCurrentContent().getPlainText();
  own.write = (text) => change(EditorState.push(state, ContentState.createFromText(text), "insert-characters"));
  return (
    <Editor editorState={state} onChange={change} ariaLabel={label} placeholder={placeholder} role="textbox" />
  );
}

export function mount(node, { onText = () => {}, ...options } = {}) {
  // What the latest rendering gave: an older one's state is not the editor's any more.
  const own = { read: () => "", write: () => {} };
  // At once: a site may bring back a draft as soon as there is an editor.
  flushSync(() => createRoot(node).render(<Composer {...options} onText={onText} own={own} />));
  return makeHandle({ element: node, read: () => own.read(), write: (text) => own.write(text) });
}
