// One expression, evaluated in the page's own world by /api/browser/command. Gives a JSON text:
// {href, title, state, born, text, chars, fields, unread}. Reads and never changes the page.
// `born` is when this document began: two documents at one address differ in it.
((limits) => {
  'use strict';
  const parts = [];
  const fields = [];
  const unread = [];
  const isVisible = (el) => {
    const box = el.getBoundingClientRect();
    return box.width >= 8 && box.height >= 8 && el.ownerDocument.defaultView?.getComputedStyle(el).visibility === 'visible';
  };
  const isField = (el) => el.localName === 'textarea'
    || (el.localName === 'input' && !['password', 'hidden', 'submit', 'button', 'checkbox', 'radio'].includes(el.type));
  // innerText stops at shadow roots and frames: open roots and frames of the same origin are read apart.
  const read = (root) => {
    for (const el of root.querySelectorAll('*')) {
      if (isField(el) && el.value && isVisible(el)) fields.push(el.value);
      if (el.shadowRoot) {
        for (const child of el.shadowRoot.children) {
          if (!['style', 'script', 'link', 'template'].includes(child.localName)) parts.push(child.innerText ?? '');
        }
        read(el.shadowRoot);
      }
      if (el.localName !== 'iframe' && el.localName !== 'frame') continue;
      const inner = el.contentDocument;
      if (inner) {
        parts.push(inner.body?.innerText ?? '');
        read(inner);
      } else if (isVisible(el)) unread.push(String(el.src ?? '').slice(0, 300));
    }
  };
  parts.push(document.body?.innerText ?? document.documentElement?.textContent ?? '');
  read(document);
  const text = parts.filter((part) => part.trim()).join('\n');
  return JSON.stringify({
    href: location.href,
    title: document.title,
    state: document.readyState,
    born: performance.timeOrigin,
    text: text.slice(0, limits.chars),
    chars: text.length,
    fields: fields.slice(0, limits.fields).map((value) => value.slice(0, limits.chars)),
    unread: unread.slice(0, limits.frames),
  });
})
