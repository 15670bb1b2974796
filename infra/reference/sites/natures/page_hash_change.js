// The site marks a place in its own page once it is loaded.
addEventListener("load", () => setTimeout(() => { location.hash = "main-content"; }));
