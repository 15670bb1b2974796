// ProseMirror with its example set-up: a menu, and input rules that make typed quotes smart. Nameless and without a
// role, as it comes. Prose.mount(node, {label, onText})
import { exampleSetup } from "prosemirror-example-setup";
import setupCss from "prosemirror-example-setup/style/style.css" with { type: "text" };
import menuCss from "prosemirror-menu/style/menu.css" with { type: "text" };
import { schema } from "prosemirror-schema-basic";
import { EditorState } from "prosemirror-state";
import { EditorView } from "prosemirror-view";
import viewCss from "prosemirror-view/style/prosemirror.css" with { type: "text" };
import { makeHandle } from "./handle";
import { addStyles } from "./styles";

const makeLine = (text) => schema.node("paragraph", null, text ? [schema.text(text)] : []);

export function mount(node, { label, onText = () => {} } = {}) {
  addStyles(viewCss + menuCss + setupCss);
  const view = new EditorView(node, {
    state: EditorState.create({ schema, plugins: exampleSetup({ schema }) }),
    attributes: label ? { "aria-label": label } : {},
    dispatchTransaction(transaction) {
      view.updateState(view.state.apply(transaction));
      if (transaction.docChanged) onText(read());
    },
  });
  const read = () => view.state.doc.textBetween(0, view.state.doc.content.size, "\n");
  const write = (text) => {
    const { tr, doc } = view.state;
    view.dispatch(tr.replaceWith(0, doc.content.size, text.split("\n").map(makeLine)));
  };
  return makeHandle({ element: node, read, write });
}
