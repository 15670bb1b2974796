// Whenever the end of the page comes in sight there is more of it.
const AT_ONCE = 5;
addEventListener("DOMContentLoaded", () => {
  const feed = document.getElementById("natures-feed");
  const add = () => {
    for (let more = 0; more < AT_ONCE; more += 1) {
      const article = document.createElement("article");
      const number = feed.children.length + 1;
      article.innerHTML = `<b>Reader ${number}</b><p>Note ${number} of the day, on looms, rain and bread.</p>
        <button type="button" aria-label="Like note ${number}">♡</button>`;
      feed.append(article);
    }
  };
  new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && add())
    .observe(document.getElementById("natures-end"));
});
