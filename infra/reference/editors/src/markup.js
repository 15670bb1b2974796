// For libraries whose own account of a text is HTML: plain text to paragraphs, and back to lines.
const BLOCKS = "p, div, li, h1, h2, h3, h4, h5, h6, pre, blockquote, br";

export function toMarkup(text) {
  const holder = document.createElement("div");
  for (const line of text.split("\n")) {
    holder.append(Object.assign(document.createElement("p"), { textContent: line }));
  }
  return holder.innerHTML;
}

export function toLines(html) {
  // A document of its own: nothing in it is run or fetched.
  const { body } = new DOMParser().parseFromString(html, "text/html");
  for (const block of body.querySelectorAll(BLOCKS)) block.after("\n");
  return body.textContent;
}
