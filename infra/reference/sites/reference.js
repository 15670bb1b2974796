// On every page of the sites, before its own scripts: which editor is meant, and an account of it for the truth.
// Nothing that judges a run reads it; what an all-knowing judge reads is `survey`, the function of truth.js.
globalThis.reference = {
  // {element, read(), write(text)} of the one editor that a payload belongs into; null where none is mounted.
  handle: null,
  // Name the intended editor, as its adapter (infra/reference/editors/src) has mounted it.
  intend(handle) {
    this.handle = handle;
    return handle;
  },
  // The frames that give account of themselves; a frame of a stranger is not among them.
  frames: new Set(),
  survey: SURVEY,
};
if (parent !== globalThis) parent.postMessage({ givesAccount: true }, "*");
addEventListener("message", async (event) => {
  if (event.data?.givesAccount) reference.frames.add(event.source);
  // An answer carries a survey too: taken for a question it would be answered, and its answer answered, for ever.
  if (event.data?.survey === undefined || event.data.answer !== undefined) return;
  const survey = JSON.parse(await reference.survey(event.data.payload, null));
  event.source.postMessage({ answer: event.data.survey, survey }, "*");
});
