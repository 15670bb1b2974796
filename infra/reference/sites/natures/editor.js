// The intended editor of a page and its own state: what the editor natures act on, alone or several at a time. EDITOR,
// the path to it where no library has made it, and SEED are set before this file. Text goes through the editor itself:
// written into the DOM alone, the next rendering undoes it.
const WATCH_MS = 20;
// What has been written here: a nature does not take it for a visitor's text.
const ours = new Set();
const watchers = [];
// What is still to happen to the text that is there now.
const debts = new Set();
let refused = false;

function find() {
  const handle = globalThis.reference?.handle;
  if (handle || !EDITOR) return handle?.element ?? null;
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
  return node && (globalThis.reference?.handle ? reference.handle.read() : PLAIN.read(node));
}

function write(text) {
  ours.add(text);
  if (reference.handle) reference.handle.write(text);
  else PLAIN.write(find(), text);
}

// Call with every new text: of a visitor's own alone, unless all are wanted.
function watch(heard, { all = false } = {}) {
  let last = "";
  const look = () => {
    const text = read();
    if (text === null || text === last) return;
    last = text;
    if (text && (all || !ours.has(text))) heard(text);
  };
  watchers.push({ isBehind: () => (read() ?? last) !== last });
  setInterval(look, WATCH_MS);
}

// Whatever changes the text later goes through here, so that a judge of truth can wait for the end of it.
function postpone(act, ms) {
  const debt = {};
  debt.timer = setTimeout(() => {
    debts.delete(debt);
    act();
  }, ms);
  debts.add(debt);
  return debt;
}

function cancel(debt) {
  clearTimeout(debt?.timer);
  debts.delete(debt);
}

globalThis.natures = { isOwing: () => debts.size > 0 || watchers.some((watcher) => watcher.isBehind()) };

// The windows whose keys can be the editor's: this one, and those of frames of this origin within the editor. Heard
// first, before the editor itself hears, or after it.
function listen(names, heard, { first = true } = {}) {
  const heardIn = new WeakSet();
  const add = (view, isOurs) => {
    if (heardIn.has(view)) return;
    heardIn.add(view);
    for (const name of names) view.addEventListener(name, (event) => isOurs(event) && heard(event), first);
  };
  add(window, (event) => event.composedPath().includes(find()));
  setInterval(() => {
    for (const frame of find()?.querySelectorAll("iframe") ?? []) {
      if (frame.contentDocument) add(frame.contentWindow, () => true);
    }
  }, WATCH_MS);
}

// Keep all input from the editor; what it would have been is told. Cancelling `keypress` would leave nothing to tell.
function intercept(told) {
  listen(["keypress"], (event) => event.stopImmediatePropagation());
  listen(["beforeinput", "textInput", "paste", "drop"], (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    told(event.data ?? "");
  });
}

// Nothing gets in by keys, by the browser's input or by paste. A scripted editing command (execCommand) asks nobody
// first: what came by one is taken out again, at once for Draft.js, whose elements React could not take back later, and
// one task later for those that look at the DOM then. Lexical's state stays empty too, but such a command's text
// remains in its DOM. What a library lets in by another way is taken out as soon as it is seen.
function refuse() {
  if (refused) return;
  refused = true;
  intercept(() => {});
  const isDraft = () => find()?.querySelector(".DraftEditor-root");
  listen(["input"], (event) => {
    if (!event.isTrusted) return;
    if (isDraft()) write("");
    else setTimeout(() => write(""));
  }, { first: false });
  watch(() => isDraft() || write(""));
}

// What a nature brings later; an editor that takes nothing any more does not take that either.
function bring(text) {
  if (!refused && find()) write(text);
}
