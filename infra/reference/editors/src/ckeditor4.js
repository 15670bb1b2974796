// CKEditor 4: the text lives in the body of a frame of the page's own origin, and the textarea that was there is hidden.
// Its language, skin and icons are in the bundle, and it asks nobody for newer versions. Ck4.mount(textarea, {onText})
// gives a promise of its handle.
import "./ckeditor4-base";
import "ckeditor4/ckeditor.js";
import "ckeditor4/lang/en.js";
import skin from "ckeditor4/skins/moono-lisa/editor.css" with { type: "text" };
import icons from "ckeditor4/skins/moono-lisa/icons.png";
import { makeHandle } from "./handle";
import { toLines, toMarkup } from "./markup";
import { addStyles } from "./styles";

// The skin names its one picture of all icons a hundred times.
const styles = `:root { --cke-icons: url(${icons}) }${skin.replace(/url\(icons\.png[^)]*\)/g, "var(--cke-icons)")}`;

export async function mount(node, { onText = () => {} } = {}) {
  const { CKEDITOR } = window;
  addStyles(styles.replace(/url\((icons_hidpi|images)[^)]*\)/g, "none"));
  CKEDITOR.skin.loadPart = (_part, done) => done?.();
  const editor = CKEDITOR.replace(node, {
    versionCheck: false,
    customConfig: "",
    stylesSet: false,
    contentsCss: "body { font: 15px/1.4 sans-serif; margin: 12px }",
    language: "en",
    height: 140,
    plugins: "basicstyles,enterkey,entities,toolbar,undo,wysiwygarea",
  });
  await new Promise((resolve) => editor.on("instanceReady", resolve));
  editor.on("change", () => onText(toLines(editor.getData())));
  return makeHandle({
    element: editor.container.$,
    read: () => toLines(editor.getData()),
    write: (text) => editor.setData(text && toMarkup(text)),
  });
}
