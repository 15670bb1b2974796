// The address of the first thing of a kind on the page ("" when there is none). Open shadow roots are entered;
// navigation, header, footer and asides are not looked at.
((kind) => {
  const patterns = {
    video: /^\/watch$|\/video\/|^\/shorts\//,
    reel: /\/reel\//,
    post: /\/(p|reel|posts?|status|comments|notes?)\//,
    channel: /^\/[A-Za-z0-9_]+\/?$/,
    stream: /^\/[A-Za-z0-9_]+\/?$/,
  };
  const reserved = new Set(["directory", "login", "signup", "search", "settings", "about", "jobs", "explore", "home"]);
  const outside = (link) => {
    for (let node = link; node; node = node.parentNode || node.host) {
      if (/^(NAV|HEADER|FOOTER|ASIDE)$/.test(node.nodeName)) return true;
    }
    return false;
  };
  const fits = (link) => {
    const target = new URL(link.href, location.href);
    if (target.host !== location.host || !/^https?:$/.test(target.protocol)) return false;
    const pattern = patterns[kind];
    if (!pattern) return Boolean(link.closest("article, main"));
    if (kind === "channel" || kind === "stream") {
      if (reserved.has(target.pathname.split("/")[1])) return false;
    }
    return pattern.test(target.pathname);
  };
  // A blog's addresses say nothing: its posts are the links in headings and around them, to somewhere deeper.
  const isHeadline = (link) => {
    const target = new URL(link.href, location.href);
    if (target.host !== location.host || reserved.has(target.pathname.split("/")[1])) return false;
    if (/^\/(tag|tags|category|author|page)\//.test(target.pathname) || target.pathname.length <= 1) return false;
    return Boolean(link.closest("h1, h2, h3, h4") || link.querySelector("h1, h2, h3, h4"));
  };
  const walk = (root, accepts) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.matches("a[href]") && !outside(element) && accepts(element)) return element.href;
      const inside = element.shadowRoot && walk(element.shadowRoot, accepts);
      if (inside) return inside;
    }
    return "";
  };
  const found = walk(document, fits);
  return found || (["post", "article", "story"].includes(kind) ? walk(document, isHeadline) : "");
})
