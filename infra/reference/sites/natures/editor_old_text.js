// The site brings back a draft as soon as there is an editor: the text of another run.
const restore = setInterval(() => {
  const text = read();
  if (text === null) return;
  clearInterval(restore);
  if (!text.trim()) write("probe zzzzz coverage alpha");
}, WATCH_MS);
