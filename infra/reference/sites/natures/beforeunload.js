// Who leaves a page with a text that was not sent is asked.
addEventListener("beforeunload", (event) => {
  if (read()) event.preventDefault();
});
