// Putting text into whatever takes text, and reading it back from there.

const TINY_PX = 8;

function isField(element) {
  return element instanceof HTMLTextAreaElement || element instanceof HTMLInputElement;
}

function takesText(element) {
  return Boolean(element) && (isField(element) || element.isContentEditable || Boolean(element.editContext));
}

// What is left of a field's box inside the boxes that clip it: CodeMirror 5 keeps a long one in a slot of no height.
function clippedSize(element) {
  let { left, right, top, bottom } = element.getBoundingClientRect();
  let node = parentOf(element);
  for (let level = 0; node && level < 2; level += 1, node = parentOf(node)) {
    if (getComputedStyle(node).overflow === "visible") continue;
    const box = node.getBoundingClientRect();
    left = Math.max(left, box.left);
    right = Math.min(right, box.right);
    top = Math.max(top, box.top);
    bottom = Math.min(bottom, box.bottom);
  }
  return { width: right - left, height: bottom - top };
}

// Some code editors take their keys through a surface of a few pixels and paint the text beside it.
function isProxy(element) {
  if (element.editContext) return true;
  // A field that is not drawn at all takes no keys: many libraries leave one behind.
  if (!isField(element) || !element.getClientRects().length) return false;
  const { width, height } = clippedSize(element);
  return width < TINY_PX || height < TINY_PX;
}

// What a person sees of such a surface: the first box around it with room for text.
function stageOf(element) {
  for (let node = element.editContext ? element : parentOf(element); node; node = parentOf(node)) {
    const box = node.getBoundingClientRect();
    if (box.width >= 100 && box.height >= 20) return node;
  }
  return element;
}

// Where the best known of them paint the text: without it the numbers of the lines would be read along.
const PAINTED = ".view-lines,.ace_text-layer,.cm-content";

function paintedIn(element) {
  const stage = stageOf(element);
  const rows = [...stage.querySelectorAll(".CodeMirror-line")];
  if (rows.length) return rows.map((row) => row.innerText).join("\n");
  return (stage.querySelector(PAINTED) ?? stage).innerText ?? "";
}

// Such a surface is one to write in while it has the keyboard, or when it was found as a composer; at other
// times it is what it looks like, something of no size.
function isUsedProxy(element) {
  if (!(element instanceof HTMLTextAreaElement || element.editContext) || !isProxy(element)) return false;
  return element.hasAttribute("data-osw-composer") || activeElement() === element;
}

// An editor that is an editable for each of its blocks is one text all the same.
const BLOCKS = ".codex-editor__redactor";

function readText(element) {
  if (!element.isConnected) return "";
  if (isProxy(element)) return paintedIn(element);
  const blocks = element.closest(BLOCKS);
  if (blocks) return blocks.innerText;
  return isField(element) ? element.value : element.innerText ?? "";
}

// As the audit of a page reads: what nobody typed and nobody sees, and what editors make of straight quotes, is no difference.
function plain(text) {
  return collapse(
    text
      .normalize("NFC")
      .replace(/[\u200b-\u200f\u2060-\u2064\ufeff\u00ad]/g, "")
      .replace(/[\u2018\u2019\u201a\u201b]/g, "'")
      .replace(/[\u201c-\u201f\u00ab\u00bb]/g, '"')
      .replace(/\u2026/g, "...")
      .replace(/\u2014/g, "--"),
  );
}

function plainText(element) {
  return plain(readText(element));
}

// How often the wanted text stands in the element; where a code editor paints the numbers of its lines, between them.
function countIn(element, wanted) {
  const lines = (isProxy(element) ? wanted.split("\n") : [wanted]).map(plain).filter(Boolean);
  if (!lines.length) return 0;
  const escaped = lines.map((line) => line.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return plainText(element).match(new RegExp(escaped.join("(?: \\d+)* "), "g"))?.length ?? 0;
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
  if (plainText(element)) {
    if (kind === "field") element.select();
    else document.execCommand("selectAll");
    // Editors copy the selection when the browser tells them so, one task later.
    await new Promise((resolve) => setTimeout(resolve));
  }
  return kind;
}

// What can't be taken out of an element that has just been emptied; editors commit late.
async function leftOver(element, wanted, forMs) {
  await until(() => !plainText(element), forMs);
  return { text: plainText(element), count: countIn(element, wanted) };
}

// Wait until the text, and it alone, stands there; editors commit late, some never. `stands` is whether it is there
// once more than before, whatever else is: a chip, a counter, what an editor adds to the text by itself.
async function readBack(element, wanted, before, forMs) {
  await until(() => plainText(element) === plain(wanted), forMs);
  const text = plainText(element);
  return { stands: text === plain(wanted) || countIn(element, wanted) === before + 1, text };
}

function isMultiline(element) {
  return !(element instanceof HTMLInputElement);
}
