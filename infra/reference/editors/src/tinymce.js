// TinyMCE in its usual mode: the text lives in the body of a frame of the page's own origin, and the textarea that
// was there is hidden. With `inline` the element itself is made editable instead. Tiny.mount(node, {inline, onText})
// gives a promise of its handle. Menus and plugins are left out.
import tinymce from "tinymce";
import "tinymce/models/dom";
import "tinymce/icons/default";
import "tinymce/themes/silver";
import "tinymce/skins/ui/oxide/skin.js";
import "tinymce/skins/ui/oxide/content.js";
import "tinymce/skins/ui/oxide/content.inline.js";
import "tinymce/skins/content/default/content.js";
import { makeHandle } from "./handle";
import { toMarkup } from "./markup";

export async function mount(target, { inline = false, onText = () => {} } = {}) {
  const [editor] = await tinymce.init({
    target,
    inline,
    license_key: "gpl",
    menubar: false,
    statusbar: false,
    toolbar: "bold italic",
    promotion: false,
    branding: false,
    setup: (own) => own.on("input change undo redo", () => onText(own.getContent({ format: "text" }).trim())),
  });
  return makeHandle({
    element: inline ? target : editor.getContainer(),
    read: () => editor.getContent({ format: "text" }).trim(),
    write: (text) => editor.setContent(text && toMarkup(text)),
  });
}
