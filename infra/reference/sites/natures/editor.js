// The intended editor of a page and its own state: what the editor natures act on. EDITOR, the path to it where no
// library has made it, is set before this file. Text goes through the editor itself: written into the DOM alone, the
// next rendering undoes it.
const WATCH_MS = 20;
let written = null;

function find() {
  if (reference.handle || !EDITOR) return reference.handle?.element ?? null;
  let node = document;
  for (const part of EDITOR.split(" >>> ")) {
    node = (node.shadowRoot ?? node).querySelector(part);
    if (!node) return null;
  }
  return node;
}

const PLAIN = {
  read: (node) => (node.localName === "textarea" ? node.value : node.innerText.trim()),
  write(node, text) {
    if (node.localName === "textarea") node.value = text;
    else node.textContent = text;
    node.dispatchEvent(new Event("input", { bubbles: true }));
  },
};

// What the editor holds by its own account; null while there is no editor.
function read() {
  const node = find();
  return node && (reference.handle ? reference.handle.read() : PLAIN.read(node));
}

function write(text) {
  written = text;
  if (reference.handle) reference.handle.write(text);
  else PLAIN.write(find(), text);
}

// Call with every new text that is not ours.
function watch(heard) {
  let last = "";
  setInterval(() => {
    const text = read();
    if (text === null || text === last) return;
    last = text;
    if (text && text !== written) heard(text);
    else written = null;
  }, WATCH_MS);
}

// Keep all input from the editor; what it would have been is told. Cancelling `keypress` would leave nothing to tell.
function intercept(told) {
  const isOurs = (event) => event.composedPath().includes(find());
  window.addEventListener("keypress", (event) => isOurs(event) && event.stopImmediatePropagation(), true);
  for (const name of ["beforeinput", "textInput", "paste", "drop"]) {
    window.addEventListener(name, (event) => {
      if (!isOurs(event)) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      told(event.data ?? "");
    }, true);
  }
}

// Nothing gets in by keys, by the browser's input or by paste. A scripted editing command (execCommand) asks nobody
// first: what came by one is taken out again, at once for Draft.js, whose elements React could not take back later, and
// one task later for those that look at the DOM then. Lexical's state stays empty too, but such a command's text
// remains in its DOM.
function refuse() {
  intercept(() => {});
  window.addEventListener("input", (event) => {
    if (!event.isTrusted || !event.composedPath().includes(find())) return;
    if (find().querySelector(".DraftEditor-root")) write("");
    else setTimeout(() => write(""));
  });
}
