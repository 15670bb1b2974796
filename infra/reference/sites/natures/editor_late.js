// What is typed is shown 1.5 s after the last of it; what comes after a pause replaces what was typed before.
const SHOWN_AFTER_MS = 1500;
const PAUSE_MS = 200;
let pending = "";
let typed = 0;
let show;
intercept((data) => {
  const now = performance.now();
  pending = now - typed > PAUSE_MS ? data : pending + data;
  typed = now;
  cancel(show);
  show = postpone(() => bring(pending), SHOWN_AFTER_MS);
});
