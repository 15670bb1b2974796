// Where elements are, and whether a person could see and hit them.

function collapse(text) {
  return String(text ?? "").replace(/[\s\u00a0]+/g, " ").trim();
}

function parentOf(node) {
  if (node.assignedSlot) return node.assignedSlot;
  return node.parentNode instanceof ShadowRoot ? node.parentNode.host : node.parentElement;
}

function contains(outer, inner) {
  for (let node = inner; node; node = parentOf(node)) if (node === outer) return true;
  return false;
}

function hitAt(x, y) {
  let hit = document.elementFromPoint(x, y);
  while (hit?.shadowRoot) {
    const inner = hit.shadowRoot.elementFromPoint(x, y);
    if (!inner || inner === hit) break;
    hit = inner;
  }
  return hit;
}

function boxOf(element) {
  const boxes = [...element.getClientRects()].filter((box) => box.width >= 1 && box.height >= 1);
  return boxes[0] ?? null;
}

function isInView(box) {
  return box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
}

// How many square pixels of each element are in view, and how many it has.
function extents(_, ...elements) {
  return elements.map((element) => {
    const box = element.getBoundingClientRect();
    const width = Math.min(box.right, innerWidth) - Math.max(box.left, 0);
    const height = Math.min(box.bottom, innerHeight) - Math.max(box.top, 0);
    return [Math.max(width, 0) * Math.max(height, 0), box.width * box.height];
  });
}

// Its own pixels, a part of it, something around it that swallows no clicks, or its label.
function isMine(element, hit) {
  if (!hit) return false;
  if (contains(element, hit) || contains(hit, element)) return true;
  return [...(element.labels ?? [])].some((label) => contains(label, hit));
}

function pointsIn(box) {
  const left = Math.max(box.left, 0);
  const right = Math.min(box.right, innerWidth);
  const top = Math.max(box.top, 0);
  const bottom = Math.min(box.bottom, innerHeight);
  const at = (fx, fy) => ({ x: left + (right - left) * fx, y: top + (bottom - top) * fy });
  return [at(0.5, 0.5), at(0.25, 0.25), at(0.75, 0.25), at(0.25, 0.75), at(0.75, 0.75)];
}

function clearPointOf(element, box) {
  return pointsIn(box).find((point) => isMine(element, hitAt(point.x, point.y))) ?? null;
}

function sight(element) {
  if (element.isConnected && isUsedProxy(element) && stageOf(element) !== element) {
    return { ...sight(stageOf(element)), is_protected: false, text: collapse(paintedIn(element)) };
  }
  const box = element.isConnected ? boxOf(element) : null;
  if (!box) return { seen: false, in_view: false, is_protected: false, text: null };
  const inView = isInView(box);
  return {
    seen: !inView || clearPointOf(element, box) !== null,
    in_view: inView,
    is_protected: element.type === "password",
    text: null,
  };
}

function sights(_, ...elements) {
  return elements.map(sight);
}

const SCOPES = "article,li,tr,dialog,section,form,fieldset,[role=dialog],[role=listitem],[role=article],[role=row]";

function surroundings(_, ...elements) {
  return elements.map((element) => {
    const own = collapse(element.innerText);
    const scope = element.closest(SCOPES);
    return scope ? collapse(collapse(scope.innerText).replace(own, " ")).slice(0, 40) : "";
  });
}

function describe(element) {
  if (!element) return "";
  const name = collapse(element.getAttribute("aria-label") || element.innerText || element.value).slice(0, 40);
  return `${element.localName}${name ? ` "${name}"` : ""}`;
}

// Bring it into view and find a point on it that a click would really reach.
function aim(element) {
  if (!element.isConnected) return null;
  let box = boxOf(element);
  if (!box || !isInView(box) || box.top < 0 || box.bottom > innerHeight) {
    element.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
    box = boxOf(element);
  }
  if (!box) return null;
  const clear = clearPointOf(element, box);
  const point = clear ?? pointsIn(box)[0];
  return { x: point.x, y: point.y, landed: clear !== null, hit: describe(hitAt(point.x, point.y)) };
}

function rootsOf(root) {
  const roots = [root];
  for (const element of root.querySelectorAll("*")) if (element.shadowRoot) roots.push(...rootsOf(element.shadowRoot));
  return roots;
}

function find(_, selector) {
  for (const root of rootsOf(document)) {
    const found = root.querySelector(selector);
    if (found) return found;
  }
  return null;
}

function activeElement() {
  let active = document.activeElement;
  while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
  return active;
}

async function until(condition, forMs) {
  const end = performance.now() + forMs;
  for (;;) {
    const value = condition();
    if (value || performance.now() > end) return value;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function isThere(element) {
  return element.isConnected;
}
