// Lexical with its plain-text plugin on an element that carries neither a role nor a name.
// Chat.mount(node, {onText})
import { registerPlainText } from "@lexical/plain-text";
import { $createLineBreakNode, $createParagraphNode, $createTextNode, $getRoot, createEditor } from "lexical";
import { makeHandle } from "./handle";

export function mount(node, { onText = () => {} } = {}) {
  const editor = createEditor({ namespace: "chat", onError: (error) => { throw error; } });
  node.contentEditable = "true";
  editor.setRootElement(node);
  registerPlainText(editor);
  editor.registerUpdateListener(({ editorState }) => {
    editorState.read(() => onText($getRoot().getTextContent()));
  });
  return makeHandle({
    element: node,
    read: () => editor.getEditorState().read(() => $getRoot().getTextContent()),
    write: (text) => editor.update(() => {
      const lines = text.split("\n").flatMap((line) => [$createLineBreakNode(), $createTextNode(line)]).slice(1);
      $getRoot().clear().append($createParagraphNode().append(...(text ? lines : [])));
    }),
  });
}
