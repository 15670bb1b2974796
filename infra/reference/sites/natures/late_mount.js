// A page that is drawn late: its parts take their place, and are seen 800 ms after the load.
const DRAWN_AFTER_MS = 800;
const veil = document.createElement("style");
veil.textContent = "body > * { visibility: hidden !important } body::before { content: 'Loading…'; padding: 14px }";
document.head.append(veil);
addEventListener("load", () => setTimeout(() => veil.remove(), DRAWN_AFTER_MS));
