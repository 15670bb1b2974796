// What a browser finds in the worker's place once the site has none any more: one that takes itself away.
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.registration.unregister()));
