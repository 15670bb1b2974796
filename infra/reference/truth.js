((payload, path) => {
  const squeeze = (text) => (text || "").replace(/\s+/g, " ").trim();
  const wanted = squeeze(payload);
  const count = (text) => wanted ? squeeze(text).split(wanted).length - 1 : 0;
  const all = [];
  (function walk(root) {
    for (const element of root.querySelectorAll("*")) {
      all.push(element);
      if (element.shadowRoot) walk(element.shadowRoot);
    }
  })(document);
  const content = (element) => {
    if (element.matches("textarea, input")) return element.value;
    const top = element.isContentEditable && !(element.parentElement && element.parentElement.isContentEditable);
    return top ? element.innerText : "";
  };
  let intended = document;
  for (const part of path ? path.split(" >>> ") : []) {
    intended = intended && (intended.shadowRoot || intended).querySelector(part);
    if (!intended) break;
  }
  if (intended === document) intended = null;
  // A text that stands beside more text is not the text that was asked for.
  const whole = (element) => squeeze(content(element)) === wanted ? count(content(element)) : 0;
  const holders = all.filter((element) => count(content(element)));
  const others = holders.filter((element) => element !== intended);
  const name = (element) => element.tagName.toLowerCase() + (element.id ? "#" + element.id : "")
    + (element.getAttribute("aria-label") ? `[aria-label=${JSON.stringify(element.getAttribute("aria-label"))}]` : "");
  return JSON.stringify({
    url: location.href,
    intended: intended ? whole(intended) : 0,
    elsewhere: others.reduce((sum, element) => sum + count(content(element)), 0),
    element: holders.length ? name(intended && whole(intended) ? intended : holders[0]) : null,
  });
})
