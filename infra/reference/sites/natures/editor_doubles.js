// 300 ms after the last of the text a second copy of it comes back from the site and is added; once a page.
let done = false;
let add;
watch((text) => {
  if (done) return;
  cancel(add);
  add = postpone(() => {
    done = true;
    bring(text + text);
  }, 300);
});
