// What every adapter's `mount` gives (or promises): the editor as a page and a judge of truth need it.
//   element: what holds all of the editor that can be seen; what stands inside is the editor's, and nothing else's
//   read():  the whole text of the editor's own model, lines ended by \n, without one at its end
//   write(text): the model holds this text instead, as if the site itself had brought it back
export function makeHandle({ element, read, write }) {
  return { element, read: () => read().replace(/\n+$/, ""), write };
}
