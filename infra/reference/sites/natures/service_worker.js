// The site's worker stands between its pages and the network from the second page on.
navigator.serviceWorker?.register("/__worker.js").catch(() => {});
