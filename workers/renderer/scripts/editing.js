// Putting text into whatever takes text, and reading it back from there.

const TINY_PX = 8;

function isField(element) {
  return element instanceof HTMLTextAreaElement || element instanceof HTMLInputElement;
}

function takesText(element) {
  return Boolean(element) && (isField(element) || element.isContentEditable || Boolean(element.editContext));
}

// Some code editors take their keys through a surface of a few pixels and paint the text beside it.
function isProxy(element) {
  const box = element.getBoundingClientRect();
  return Boolean(element.editContext) || (isField(element) && (box.width < TINY_PX || box.height < TINY_PX));
}

function stageOf(element) {
  for (let node = element; node; node = parentOf(node)) {
    const box = node.getBoundingClientRect();
    if (box.width >= 100 && box.height >= 20) return node;
  }
  return element;
}

// Where the best known of them paint the text: without it the numbers of the lines would be read along.
const PAINTED = ".view-lines,.ace_text-layer,.CodeMirror-code,.cm-content";

function paintedIn(element) {
  const stage = stageOf(element);
  return (stage.querySelector(PAINTED) ?? stage).innerText ?? "";
}

// Such a surface is one to write in while it has the keyboard, or when it was found as a composer; at other
// times it is what it looks like, something of no size.
function isUsedProxy(element) {
  if (!(element instanceof HTMLTextAreaElement || element.editContext) || !isProxy(element)) return false;
  return element.hasAttribute("data-osw-composer") || activeElement() === element;
}

function readText(element) {
  if (isProxy(element)) return paintedIn(element);
  return isField(element) ? element.value : element.innerText ?? "";
}

function plain(text) {
  return collapse(
    text.replace(/[\u200b\u200c\u200d\ufeff]/g, "").replace(/[\u2018\u2019]/g, "'").replace(/[\u201c\u201d]/g, '"'),
  );
}

function countOf(text, wanted) {
  return wanted ? plain(text).split(plain(wanted)).length - 1 : 0;
}

function editableIn(element) {
  if (takesText(element)) return element;
  const active = activeElement();
  if (active && takesText(active) && contains(element, active)) return active;
  for (const root of rootsOf(element)) {
    const inner = [...root.querySelectorAll("textarea,input,[contenteditable]")].find(takesText);
    if (inner) return inner;
  }
  return null;
}

function hasFocus(element) {
  const active = activeElement();
  return Boolean(active) && (contains(element, active) || (element.isContentEditable && contains(active, element)));
}

// The element that has the keyboard now, if it takes text and stands where we wanted to write.
function focused(element) {
  const active = activeElement();
  if (!takesText(active)) return null;
  return !element.isConnected || hasFocus(element) || contains(element, active) ? active : null;
}

function focus(element) {
  element.focus({ preventScroll: false });
  return hasFocus(element);
}

// How text gets in: "field" and "rich" are selected here, a "proxy" only hears real keys.
async function selectAll(element) {
  if (isProxy(element)) return "proxy";
  const kind = isField(element) ? "field" : "rich";
  if (plain(readText(element))) {
    if (kind === "field") element.select();
    else document.execCommand("selectAll");
    // Editors copy the selection when the browser tells them so, one task later.
    await new Promise((resolve) => setTimeout(resolve));
  }
  return kind;
}

// Wait until the text stands there once; editors commit late, some never.
async function readBack(element, wanted, forMs) {
  const stands = await until(() => countOf(readText(element), wanted) === 1, forMs);
  return { stands: Boolean(stands), text: plain(readText(element)) };
}

function isMultiline(element) {
  return !(element instanceof HTMLInputElement);
}
