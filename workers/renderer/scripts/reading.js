// What the page says, and how it scrolls.

function scrollerAt() {
  const page = document.scrollingElement ?? document.documentElement;
  if (page.scrollHeight > page.clientHeight + 1) return page;
  let best = page;
  for (const element of document.querySelectorAll("*")) {
    if (element.scrollHeight <= element.clientHeight + 1 || element.clientHeight < 50) continue;
    if (!["auto", "scroll"].includes(getComputedStyle(element).overflowY)) continue;
    if (best === page || element.clientHeight * element.clientWidth > best.clientHeight * best.clientWidth) best = element;
  }
  return best;
}

function scrollPage(_, direction, amount) {
  const target = scrollerAt();
  const before = [target.scrollLeft, target.scrollTop];
  const signs = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] }[direction];
  if (!signs) return null;
  target.scrollBy({ left: signs[0] * amount, top: signs[1] * amount, behavior: "instant" });
  return {
    scrolled: target.scrollLeft !== before[0] || target.scrollTop !== before[1],
    scrollTop: Math.round(target.scrollTop),
    scrollHeight: target.scrollHeight,
    clientHeight: target.clientHeight,
    atTop: target.scrollTop <= 0,
    atBottom: target.scrollTop + target.clientHeight >= target.scrollHeight - 1,
    target: target === document.scrollingElement ? "page" : target.localName,
  };
}

function hasText(_, wanted) {
  return collapse(document.body?.innerText).includes(collapse(wanted));
}
