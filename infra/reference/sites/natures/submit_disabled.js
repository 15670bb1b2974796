// No control that submits can be used until the rules are agreed to; the page's own reasons are kept.
const SUBMITS = /^(?:post|reply|comment|send|publish|save|submit|share|tweet)\b/i;
const LOOK_MS = 20;
const held = new Set();
setInterval(() => {
  const rules = document.getElementById("natures-rules");
  if (!rules) return;
  if (rules.checked) {
    for (const button of held) button.disabled = false;
    held.clear();
    return;
  }
  for (const button of document.querySelectorAll("main button, main input[type=submit]")) {
    const name = button.getAttribute("aria-label") ?? button.value ?? "";
    if (button.disabled || !(SUBMITS.test(name) || SUBMITS.test(button.textContent.trim()))) continue;
    button.disabled = true;
    held.add(button);
  }
}, LOOK_MS);
