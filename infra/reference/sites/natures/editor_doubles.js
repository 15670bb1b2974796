// 300 ms after the last of the text a second copy of it comes back from the site and is added; once a page.
let done = false;
let add;
watch((text) => {
  if (done) return;
  clearTimeout(add);
  add = setTimeout(() => {
    done = true;
    write(text + text);
  }, 300);
});
