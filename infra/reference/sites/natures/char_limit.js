// The count is shown, and a text that is too long loses its end.
const LIMIT = 280;
watch((text) => {
  top.postMessage({ natures: "count", count: Math.min(text.length, LIMIT) }, "*");
  if (text.length > LIMIT) bring(text.slice(0, LIMIT));
}, { all: true });
if (top === self) {
  addEventListener("message", (event) => {
    if (event.data?.natures !== "count") return;
    document.getElementById("natures-count").textContent = `${event.data.count}/${LIMIT}`;
  });
}
