// CKEditor 4 looks for its own script on the page, to load its parts from beside it. Its parts are in the bundle, and
// this is run before it looks: a part that was forgotten is asked for where the site has nothing, and so is seen.
window.CKEDITOR_BASEPATH = "/";
