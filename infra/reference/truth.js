// What really stands on this page and in its frames, by the editors' own accounts: {url, intended, elsewhere, element,
// owing}. `intended`: how often the payload is the whole text of the one intended editor. `elsewhere`: how often it
// stands in any other field that can be seen. `owing`: natures are still to change the text. A page names its intended
// editor by `reference.intend`, a site without an editor library by `path`, a CSS path in which ` >>> ` enters an open
// shadow root. A frame of another origin is asked for its own account, and what does not answer within FRAME_MS (a
// banner, say) holds nothing of ours.
(async (payload, path) => {
  const FRAME_MS = 2000;
  const plain = (text) => (text || "").replace(/[\u200b\u200c\u200d\ufeff]/g, "").replace(/[\u2018\u2019]/g, "'")
    .replace(/[\u201c\u201d]/g, '"').replace(/\s+/g, " ").trim();
  const wanted = plain(payload);
  const count = (text) => wanted ? plain(text).split(wanted).length - 1 : 0;
  const isSeen = (element) => element.getClientRects().length > 0;
  const name = (element) => element.tagName.toLowerCase() + (element.id ? "#" + element.id : "")
    + (element.getAttribute("aria-label") ? `[aria-label=${JSON.stringify(element.getAttribute("aria-label"))}]` : "");
  const content = (element) => {
    if (element.matches("textarea, input")) return element.value;
    if (element.editContext) return element.editContext.text;
    const top = element.isContentEditable && !element.parentElement?.isContentEditable;
    return top ? element.innerText : "";
  };
  const ask = (frame) => new Promise((resolve) => {
    const id = Math.random();
    const hear = (event) => {
      if (event.data?.answer !== id) return;
      removeEventListener("message", hear);
      resolve(event.data.survey);
    };
    addEventListener("message", hear);
    setTimeout(() => resolve(null), FRAME_MS);
    frame.contentWindow.postMessage({ survey: id, payload }, "*");
  });

  const find = (root) => {
    let node = root;
    for (const part of path ? path.split(" >>> ") : []) {
      node = (node.shadowRoot ?? node).querySelector(part);
      if (!node) return null;
    }
    return node === root ? null : node;
  };
  const handle = globalThis.reference?.handle ?? null;
  const bare = handle ? null : find(document);
  const own = handle ? handle.element : bare;
  // A text that stands beside more text is not the text that was asked for.
  const text = handle ? handle.read() : bare ? content(bare) : "";
  const sum = { url: location.href, intended: plain(text) === wanted ? count(text) : 0, elsewhere: 0, element: null,
    owing: Boolean(globalThis.natures?.isOwing()) };
  const holders = [];
  const asked = [];
  const isOwn = (node) => {
    for (let up = node; up; up = up.parentNode ?? up.host ?? up.defaultView?.frameElement) if (up === own) return true;
    return false;
  };
  const walk = (root) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) walk(element.shadowRoot);
      if (element.localName === "iframe") {
        // The frame of an editor is the editor's own; one of this origin is looked through as the page is.
        if (element.contentDocument) walk(element.contentDocument);
        // Asked is who said that he answers: he can be waited for, however loaded the machine is.
        else if (globalThis.reference?.frames.has(element.contentWindow)) asked.push(ask(element));
      } else if (!isOwn(element) && isSeen(element) && count(content(element))) {
        sum.elsewhere += count(content(element));
        holders.push(element);
      }
    }
  };
  walk(document);
  sum.element = own && sum.intended ? name(own) : holders.length ? name(holders[0]) : null;
  for (const inner of await Promise.all(asked)) {
    if (!inner) continue;
    sum.intended += inner.intended;
    sum.elsewhere += inner.elsewhere;
    sum.element ??= inner.element;
    sum.owing ||= inner.owing;
  }
  return JSON.stringify(sum);
})
