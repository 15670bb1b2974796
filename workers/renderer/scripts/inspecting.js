// What get_elements tells of a page, and asking a server as the page would.

const USABLE =
  "a[href],button,input,textarea,select,summary,[role=button],[role=link],[role=textbox],[role=combobox],[role=checkbox],[role=tab],[role=menuitem],[contenteditable]";
const TOLD = ["id", "name", "type", "role", "href", "placeholder", "aria-label", "data-testid"];

function valueOf(element) {
  return isField(element) && !["password", "hidden", "checkbox", "radio", "file"].includes(element.type) ? element.value : "";
}

function elements(_, selector, most) {
  const found = [];
  for (const root of rootsOf(document)) {
    for (const element of root.querySelectorAll(selector || USABLE)) {
      if (found.length >= most) return found;
      if (!selector && !sight(element).seen) continue;
      const told = { tag: element.localName, text: collapse(element.innerText).slice(0, 80) };
      for (const name of TOLD) {
        const value = element.getAttribute(name);
        if (value) told[name] = value.slice(0, 200);
      }
      const value = valueOf(element);
      if (value) told.value = value.slice(0, 80);
      found.push(told);
    }
  }
  return found;
}

async function ask(_, method, url, chars) {
  try {
    const answer = await fetch(url, { method, credentials: "include" });
    return { status: answer.status, text: (await answer.text()).slice(0, chars) };
  } catch (error) {
    return { error: String(error.message ?? error) };
  }
}

// A picture of the page with the numbers of the last listing on it, drawn beside the page, never in it.
async function annotate(_, image, marks) {
  const bytes = Uint8Array.from(atob(image), (letter) => letter.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const pen = canvas.getContext("2d");
  pen.drawImage(picture, 0, 0);
  pen.scale(picture.width / innerWidth, picture.height / innerHeight);
  pen.font = "bold 11px sans-serif";
  pen.textBaseline = "top";
  for (const { index, left, top, width, height } of marks) {
    pen.strokeStyle = pen.fillStyle = "#d00000";
    pen.lineWidth = 1.5;
    pen.strokeRect(left, top, width, height);
    const wide = pen.measureText(index).width + 4;
    pen.fillRect(left, Math.max(top - 13, 0), wide, 13);
    pen.fillStyle = "#ffffff";
    pen.fillText(index, left + 2, Math.max(top - 13, 0) + 1);
  }
  const drawn = await canvas.convertToBlob({ type: "image/png" });
  const letters = [];
  for (const byte of new Uint8Array(await drawn.arrayBuffer())) letters.push(String.fromCharCode(byte));
  return btoa(letters.join(""));
}

function boxes(_, ...elements) {
  return elements.map((element) => {
    const box = element.isConnected ? boxOf(element) : null;
    return box && isInView(box) ? { left: box.left, top: box.top, width: box.width, height: box.height } : null;
  });
}
