// The editor takes the text, and 300 ms after the last of it the stored draft wins: empty, and closed from then on.
let revert;
watch(() => {
  cancel(revert);
  revert = postpone(() => {
    write("");
    refuse();
  }, 300);
});
