// Far too little is allowed: the text loses its end.
const LIMIT = 20;
watch((text) => {
  if (text.length > LIMIT) bring(text.slice(0, LIMIT));
}, { all: true });
