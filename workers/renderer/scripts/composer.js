// Finding the box that a person would write in, among search fields, sign-in forms and hidden helpers.

const DECOY =
  /search|filter|e-?mail|passw|user ?name|login|log in|sign ?in|phone|url|website|coupon|promo|captcha|verification|one-time|newsletter|subscri|zip|postal|\btags?\b/i;
const PUBLIC = /post|comment|reply|repl(y|ies)|tweet|caption|happening|say something|write|body|title your|thoughts|compose|start a|share/i;
const PRIVATE = /message|direct|\bdm\b|chat|conversation/i;
const SUBMIT = /^(send|post|tweet|reply|publish|comment|share|submit|chat|save|done)\b/i;
const OPENER =
  /^(create (a )?post|start a post|new post|add (a )?(public )?comment|add a reply|write (a |your )?(post|comment|reply|review|something)|compose|compose tweet|what.s happening\??|what.s on your mind.*|say something.*|join the conversation|leave a comment|post|comment|reply|write|new message|message|send (a )?message|start a (new )?(post|discussion|topic|thread))(…|\.\.\.)?$/i;
const PLACEHOLDERS = "[aria-placeholder],[data-placeholder],[placeholder],[role=textbox],[class*=placeholder i]";
const BUTTONS = "button,[role=button],input[type=submit],a[role=button],a:not([href]),a[href^='#']";
const LEVELS_UP = 8;
const NEAR_CHARS = 60;
const EDITABLES = "textarea,[contenteditable]:not([contenteditable=false]),input:not([type=hidden])";

function wordsOf(element) {
  const labels = [...(element.labels ?? [])].map((label) => label.innerText);
  const names = ["aria-label", "placeholder", "aria-placeholder", "data-placeholder", "name", "title", "type"];
  const labelled = (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean);
  const roots = labelled.map((id) => element.getRootNode().getElementById?.(id)?.innerText);
  return collapse([...names.map((name) => element.getAttribute(name)), ...labels, ...roots].filter(Boolean).join(" "));
}

function labelOf(element) {
  return collapse(element.getAttribute("aria-label") || element.innerText || element.value);
}

function isHiddenFromPeople(element) {
  for (let node = element; node; node = parentOf(node)) {
    if (node.getAttribute("aria-hidden") === "true" || node.inert) return true;
  }
  return getComputedStyle(element).visibility === "hidden";
}

function kindOf(element) {
  if (element instanceof HTMLTextAreaElement) return "textarea";
  if (element instanceof HTMLInputElement) return ["text", ""].includes(element.getAttribute("type") ?? "") ? "input" : null;
  if (element.editContext) return "editcontext";
  if (!element.isContentEditable) return null;
  const around = parentOf(element);
  const isHost = !around?.isContentEditable;
  return isHost ? "contenteditable" : null;
}

function submitNear(element) {
  let node = parentOf(element);
  for (let level = 0; node && node !== document.body && level < LEVELS_UP; level += 1) {
    for (const root of rootsOf(node)) {
      const found = [...root.querySelectorAll(BUTTONS)].find(
        (button) => SUBMIT.test(labelOf(button)) || (button.type === "submit" && button.form && boxOf(button)),
      );
      if (found) return true;
    }
    node = parentOf(node);
  }
  return false;
}

function isUsable(element) {
  if (element.disabled || element.readOnly || element.getAttribute("aria-disabled") === "true") return false;
  // A field out of the order of keys is a library's helper; an editable element may be made to be come to by mouse.
  if (isHiddenFromPeople(element) || (!element.isContentEditable && Number(element.getAttribute("tabindex")) < 0)) return false;
  const stage = isProxy(element) ? stageOf(element) : element;
  return sight(stage).seen && (stage === element || stage !== document.body);
}

const BASE = { contenteditable: 4, textarea: 3.8, editcontext: 3.6, input: 1 };

// The words around an element that carries no name: what stands close by, and what its boxes are called.
function wordsAround(element) {
  const words = [];
  let node = element;
  for (let level = 0; node && node !== document.body && level < LEVELS_UP; level += 1, node = parentOf(node)) {
    words.push(node.localName, node.id, node.getAttribute("aria-label"), node.getAttribute("class"));
    const before = node.previousElementSibling;
    const text = before && !before.querySelector(EDITABLES) && !before.matches(EDITABLES) ? collapse(before.innerText) : "";
    if (text.length <= NEAR_CHARS) words.push(text);
    // Where another box begins, the words are no longer only about this one.
    if ([...(parentOf(node)?.querySelectorAll(EDITABLES) ?? [])].some((other) => other !== element && !contains(node, other))) break;
  }
  return words.filter(Boolean).join(" ").replace(/([a-z])([A-Z])/g, "$1 $2").replace(/[-_]/g, " ");
}

function countWords(text, goal) {
  const wanted = goal.toLowerCase().split(/\s+/).filter(Boolean);
  return wanted.filter((word) => new RegExp(`\\b${word}`, "i").test(text)).length;
}

// How many words of the goal an element answers to, its own name before what is around it.
function hitsOf(element, words, goal) {
  const own = countWords(words, goal);
  return own ? own + 0.5 : hitsAround(element, goal);
}

function hitsAround(element, goal) {
  return goal ? countWords(wordsAround(element), goal) : 0;
}

function scoreOf(element, kind, goal) {
  const words = wordsOf(element);
  const hits = hitsOf(element, words, goal);
  if (DECOY.test(words) && !PUBLIC.test(words)) return null;
  if (kind === "input" && !PUBLIC.test(words) && !PRIVATE.test(words)) return null;
  const box = (isProxy(element) ? stageOf(element) : element).getBoundingClientRect();
  const nearSubmit = submitNear(element);
  const isRoomy = box.width >= 150 && box.height >= 16;
  return {
    tag: element.localName,
    role: kind,
    score: Math.round((BASE[kind] + (nearSubmit ? 2 : 0) + (isRoomy ? 1 : 0)) * 10) / 10,
    near_submit: nearSubmit,
    intent: PUBLIC.test(words) ? 2 : PRIVATE.test(words) ? 0 : 1,
    area: Math.round(box.width * box.height),
    hits,
    name: collapse(words).slice(0, 80),
    url: location.href,
  };
}

function candidates(goal) {
  const found = [];
  for (const root of rootsOf(document)) {
    for (const element of root.querySelectorAll("*")) {
      const kind = kindOf(element);
      if (!kind || !isUsable(element)) continue;
      const score = scoreOf(element, kind, goal);
      if (score && score.score >= 3.5) found.push({ element, score });
    }
  }
  return found.sort(
    (a, b) => b.score.hits - a.score.hits || b.score.score - a.score.score || b.score.intent - a.score.intent || b.score.area - a.score.area,
  );
}

// The best composer of this document, remembered for claim(); null without one. The goal's words decide between several.
function composer(_, goal) {
  const best = candidates(goal ?? "")[0];
  globalThis.bv3Composer = best?.element ?? null;
  return best?.score ?? null;
}

function unclaim() {
  for (const root of rootsOf(document)) {
    for (const element of root.querySelectorAll("[data-osw-composer]")) element.removeAttribute("data-osw-composer");
  }
}

function claim() {
  const element = globalThis.bv3Composer;
  element?.setAttribute("data-osw-composer", "1");
  return element ?? null;
}

function firstSeen(selector, accepts) {
  for (const root of rootsOf(document)) {
    const found = [...root.querySelectorAll(selector)].find((element) => accepts(element) && sight(element).seen);
    if (found) return found;
  }
  return null;
}

// A button that by its label opens a composer, and stays on the page.
function opener() {
  return firstSeen(BUTTONS, (element) => !element.disabled && OPENER.test(labelOf(element)));
}

// Something that looks like an empty composer but takes no text until it is clicked.
function sleeper() {
  return firstSeen(
    PLACEHOLDERS,
    (element) => !takesText(element) && !element.closest("a[href]") && !DECOY.test(wordsOf(element)),
  );
}

function scrollOn() {
  const before = scrollY;
  scrollBy({ top: innerHeight * 0.9, behavior: "instant" });
  return scrollY > before;
}

function scrollToEnd() {
  const before = scrollY;
  scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
  return scrollY > before;
}

function scrollBack() {
  const before = scrollY;
  scrollTo({ top: 0, behavior: "instant" });
  return before > 0;
}
