// Straight quotes turn into those of a printer once the typing pauses.
const PAUSE_MS = 100;
let curl;
watch((text) => {
  cancel(curl);
  if (!/['"]/.test(text)) return;
  curl = postpone(() => bring(text.replace(/(^|[\s(])"/g, "$1\u201c").replaceAll('"', "\u201d")
    .replace(/(^|[\s(])'/g, "$1\u2018").replaceAll("'", "\u2019")), PAUSE_MS);
}, { all: true });
