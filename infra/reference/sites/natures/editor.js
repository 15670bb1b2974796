// The intended editor of a page and its own state: what the editor natures act on. EDITOR, the path to it, is set
// before this file. Text goes through the editor itself: written into the DOM alone, the next rendering undoes it.
const WATCH_MS = 20;
let quill = null;
let written = null;

// Quill is fetched late and tells its instance to nobody but the page that mounts it.
let library;
Object.defineProperty(window, "Rich", {
  configurable: true,
  get: () => library,
  set(value) {
    library = { ...value, mount: (...options) => (quill = value.mount(...options)) };
  },
});

function find() {
  let node = document;
  for (const part of EDITOR.split(" >>> ")) {
    node = (node.shadowRoot ?? node).querySelector(part);
    if (!node) return null;
  }
  // An element may be there before the library has made an editor of it.
  return node.localName === "textarea" || node.isContentEditable ? node : null;
}

// Draft.js: React keeps the component that holds the state above the element it has rendered.
function draftOf(node) {
  const key = Object.keys(node).find((name) => name.startsWith("__reactFiber$"));
  let fiber = key && node[key];
  while (fiber && !fiber.stateNode?.props?.editorState) fiber = fiber.return;
  return fiber?.stateNode;
}

function textOf(block) {
  return block.text ?? block.children.map(textOf).join("");
}

const KINDS = [
  {
    fits: (node) => node.localName === "textarea",
    read: (node) => node.value,
    write(node, text) {
      node.value = text;
      node.dispatchEvent(new Event("input", { bubbles: true }));
    },
  },
  {
    fits: (node) => node.__lexicalEditor,
    read: (node) => textOf(node.__lexicalEditor.getEditorState().toJSON().root),
    write(node, text) {
      const place = { direction: null, format: "", indent: 0, version: 1 };
      const words = { detail: 0, format: 0, mode: "normal", style: "", text, type: "text", version: 1 };
      const lines = { ...place, type: "paragraph", textFormat: 0, textStyle: "", children: text ? [words] : [] };
      const state = JSON.stringify({ root: { ...place, type: "root", children: [lines] } });
      node.__lexicalEditor.setEditorState(node.__lexicalEditor.parseEditorState(state));
    },
  },
  {
    fits: draftOf,
    read: (node) => draftOf(node).props.editorState.getCurrentContent().getPlainText(),
    write(node, text) {
      const view = draftOf(node);
      const state = view.props.editorState;
      const content = state.getCurrentContent().constructor.createFromText(text);
      view.update(state.constructor.push(state, content, "insert-characters"));
    },
  },
  {
    fits: () => quill,
    read: () => quill.getText().replace(/\n$/, ""),
    write: (_node, text) => quill.setText(text),
  },
  {
    fits: () => true,
    read: (node) => node.innerText.trim(),
    write(node, text) {
      node.textContent = text;
      node.dispatchEvent(new Event("input", { bubbles: true }));
    },
  },
];

function kindOf(node) {
  return KINDS.find((kind) => kind.fits(node));
}

// What the editor holds by its own account; null while there is no editor.
function read() {
  const node = find();
  return node && kindOf(node).read(node);
}

function write(text) {
  const node = find();
  written = text;
  kindOf(node).write(node, text);
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

// Nothing gets in by keys, by the browser's input or by paste. A scripted editing command (execCommand) asks nobody first: what came by one is taken out again, at once for
// Draft.js, whose elements React could not take back later, and one task later for those that look at the DOM then. Lexical's
// state stays empty too, but such a command's text remains in its DOM.
function refuse() {
  intercept(() => {});
  window.addEventListener("input", (event) => {
    if (!event.isTrusted || !event.composedPath().includes(find())) return;
    if (draftOf(find())) write("");
    else setTimeout(() => write(""));
  });
}
