// A rendering some time after the first of the text ends with the focus in the search box of the page; once a page.
const STOLEN_AFTER_MS = 200 + (SEED * 37) % 201;
let stolen = false;
watch(() => {
  if (stolen) return;
  stolen = true;
  postpone(() => top.postMessage({ natures: "search" }, "*"), STOLEN_AFTER_MS);
});
if (top === self) {
  addEventListener("message", (event) => {
    if (event.data?.natures === "search") document.querySelector("#natures-search input")?.focus();
  });
}
