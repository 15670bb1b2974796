// A library's own styles, put on the page at once: an editor measures itself as it is mounted.
export function addStyles(css) {
  document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
}
