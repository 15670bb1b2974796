// Lit, for pages that define their own custom elements.
export { LitElement, css, html } from "lit";
