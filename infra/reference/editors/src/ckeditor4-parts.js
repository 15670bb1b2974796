// Where CKEditor 4 finds what it would otherwise load by address, beside its own script: this runs before it does.
import icons from "ckeditor4/plugins/icons.png";
import sharpIcons from "ckeditor4/plugins/icons_hidpi.png";

const PARTS = { "plugins/icons.png": icons, "plugins/icons_hidpi.png": sharpIcons };

window.CKEDITOR_BASEPATH = "/";
// Any other part keeps its address, where the site has nothing: a part that was forgotten is seen.
window.CKEDITOR_GETURL = (part) => PARTS[part];
