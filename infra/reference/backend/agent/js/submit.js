// Where the payload stands, and the control that would send it. Open shadow roots are entered, frames are not.
// {found, count, resolved, rank, label, why}: count is how many editables hold the payload.
((payload) => {
  const EXACT = new Set(["send", "send now", "send message", "post", "post all", "tweet", "reply", "publish", "comment", "share"]);
  const VERB = /^(send|post|tweet|reply|publish|comment|share)\b/;
  const squeeze = (text) => (text || "").replace(/[\u200b\u200c\u200d\ufeff]/g, "").replace(/[\u2018\u2019]/g, "'")
    .replace(/[\u201c\u201d]/g, '"').replace(/\s+/g, " ").trim();
  // Where code editors paint what was typed into a field of a few pixels.
  const PAINTED = ".view-lines, .ace_text-layer, .CodeMirror-line";
  const wanted = squeeze(payload);
  const all = [];
  (function walk(root) {
    for (const element of root.querySelectorAll("*")) {
      all.push(element);
      if (element.shadowRoot) walk(element.shadowRoot);
    }
  })(document);
  const held = (element) => {
    if (element.matches("textarea, input:not([type=hidden]):not([type=password])")) return squeeze(element.value);
    if (element.matches(PAINTED)) return squeeze(element.innerText);
    const host = element.isContentEditable && !(element.parentElement && element.parentElement.isContentEditable);
    return host ? squeeze(element.innerText) : "";
  };
  const editors = all.filter((element) => held(element).includes(wanted));
  if (!editors.length) {
    return JSON.stringify({ found: false, count: 0, resolved: false, rank: 0, label: "", why: "no editable holding the payload" });
  }
  const seen = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && getComputedStyle(element).visibility !== "hidden";
  };
  const label = (element) => squeeze(element.getAttribute("aria-label") || element.innerText || element.value).toLowerCase();
  const rank = (element) => {
    const text = label(element);
    if (EXACT.has(text)) return 3;
    // A button without a type counts as one outside of forms too, and there it submits nothing.
    if (element.type === "submit" && (element.closest("form") || element.getAttribute("type"))) return 2;
    return text.length <= 40 && VERB.test(text) ? 1 : 0;
  };
  const shut = (element) => element.disabled || element.getAttribute("aria-disabled") === "true";
  const controls = all.filter((element) => element.matches("button, [role=button], input[type=submit]") && seen(element) && rank(element));
  const within = (element, holder) => {
    for (let node = element; node; node = node.parentNode || node.host) if (node === holder) return true;
    return false;
  };
  let best = null;
  for (let holder = editors[0]; holder && !best; holder = holder.parentNode || holder.host) {
    const near = controls.filter((control) => within(control, holder)).sort((a, b) => rank(b) - rank(a));
    best = near[0] || null;
  }
  const facts = { found: true, count: editors.length };
  if (!best) return JSON.stringify({ ...facts, resolved: false, rank: 0, label: "", why: "no submit control near the editable" });
  if (shut(best)) {
    const why = "the submit control is present but DISABLED, so the form is not complete yet "
      + "(a required field such as a title is still empty, or the editor never registered the text)";
    return JSON.stringify({ ...facts, resolved: false, rank: 0, label: label(best), why });
  }
  return JSON.stringify({ ...facts, resolved: true, rank: rank(best), label: label(best), why: "" });
})
