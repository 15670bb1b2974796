// One expression, evaluated in the page's own world by /api/browser/command. Gives a JSON text:
// {url, title, editables: [{frame, frame_url, kind, label, name, text, length, part}], echoes: [{name, text}], frames,
// unread, takers, failed, skipped, password_form, challenge}. `part`: the text is a part of what the editor holds;
// `echoes`: text boxes that nobody can type in; `takers`: what takes the keys for something that is not known here;
// `failed`: elements that could not be read.
// Reads and never changes the page. What is counted in the texts is decided outside, where it can be tested.
((limits) => {
  'use strict';
  const TEXT_INPUTS = new Set(['text', 'search', 'url', 'email', 'tel']);
  const CHALLENGE_HOST = /captcha|challenges\.cloudflare\.com|arkoselabs|funcaptcha|geetest|datadome|perimeterx/i;
  const CHALLENGE_NAME = /captcha|px-?challenge|cf-chl|challenge-(form|stage|running)/i;
  const CHALLENGE_WORDS = new RegExp(
    '(verify|confirm|prove)( that)?( to continue:)? (you are|you\'re)( not)? (a )?(human|robot)'
    + '|are you a (human|robot)|drag the (slider|puzzle)|checking your browser|press (and|&) hold'
    + '|complete the (security check|captcha|puzzle)|unusual traffic from your', 'i');
  const ASIDE = 'header, nav, footer, aside, [role=banner], [role=navigation], [role=contentinfo]';

  // The named fields of a form, and forms and pictures of a document, stand before what it has of its own.
  const get = (of, name) => {
    for (let proto = Object.getPrototypeOf(of); proto; proto = Object.getPrototypeOf(proto)) {
      const found = Object.getOwnPropertyDescriptor(proto, name);
      if (found) return found.get ? found.get.call(of) : found.value;
    }
    return undefined;
  };
  const isForm = (el) => typeof el.localName !== 'string' || el.localName === 'form';

  const out = {
    url: location.href, title: get(document, 'title'), editables: [], echoes: [], frames: 0, unread: 0, takers: 0,
    failed: 0,
  };
  // One element that can't be read costs no other its reading.
  const attempt = (look, otherwise = null) => {
    try {
      return look();
    } catch {
      out.failed += 1;
      return otherwise;
    }
  };
  const roots = [];
  const framesSeen = [];

  const boxOf = (el) => el.getBoundingClientRect();
  const isVisible = (el) => {
    const style = el.ownerDocument.defaultView?.getComputedStyle(el);
    return el.getClientRects().length > 0 && style?.visibility === 'visible';
  };
  const isLarge = (el, width, height) => {
    const box = boxOf(el);
    return isVisible(el) && box.width >= width && box.height >= height;
  };
  const isOnTop = (el) => {
    const box = boxOf(el);
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    const hit = el.getRootNode().elementFromPoint?.(x, y);
    return !hit || hit === el || el.contains(hit) || hit.contains(el);
  };

  const isFrame = (el) => el.localName === 'iframe' || el.localName === 'frame';
  // Every open root of the page: documents of same-origin frames and open shadow roots, in reading order.
  const collect = (root, frame) => {
    const contexts = [];
    roots.push({root, frame, contexts});
    const look = (el) => {
      if (el.editContext) contexts.push(el);
      if (el.shadowRoot) collect(el.shadowRoot, frame);
      if (!isFrame(el)) return;
      framesSeen.push(el);
      if (!isLarge(el, 8, 8)) return;
      out.frames += 1;
      const inner = el.contentDocument;
      if (inner) collect(inner, out.frames);
      else if (!isBadge(el)) out.unread += 1;
    };
    // a form can have none of these
    for (const el of root.querySelectorAll('*')) if (!isForm(el)) attempt(() => look(el));
  };

  // Editors that take keys in one element, keep the text in a model, and paint as much of it as fits. Their text is
  // what the library's own handle says; the painted lines are the second best: more lines may stand beyond them.
  const MODELS = [
    {
      kind: 'ace', root: '.ace_editor', takers: '.ace_editor .ace_text-input', lines: '.ace_text-layer .ace_line',
      open: (el) => el.env.editor,
      read: (editor) => [editor.getValue(), editor.getReadOnly()],
      isWhole: (el) => !isShown(el.querySelector('.ace_scrollbar-v')),
    },
    {
      kind: 'codemirror5', root: '.CodeMirror', takers: '.CodeMirror > div > textarea, .CodeMirror .CodeMirror-code',
      lines: '.CodeMirror-code .CodeMirror-line',
      open: (el) => el.CodeMirror,
      read: (editor) => [editor.getValue(), Boolean(editor.getOption('readOnly'))],
      isWhole: (el) => !isShown(el.querySelector('.CodeMirror-vscrollbar')),
    },
    {
      kind: 'codemirror6', root: '.cm-editor', takers: '.cm-editor .cm-content', lines: '.cm-content .cm-line',
      open: (el) => {
        const content = el.querySelector('.cm-content');
        return content.cmTile?.root?.view ?? content.cmTile?.view ?? content.cmView?.rootView?.view ?? content.cmView.view;
      },
      read: (view) => [view.state.doc.toString(), view.state.readOnly || !view.contentDOM.isContentEditable],
      isWhole: (el) => !el.querySelector('.cm-gap'),
    },
    {
      kind: 'monaco', root: '.monaco-editor', lines: '.view-lines .view-line',
      takers: '.monaco-editor .native-edit-context, .monaco-editor .ime-text-area, .monaco-editor textarea.inputarea',
      open: (el) => el.ownerDocument.defaultView.monaco.editor.getEditors().find((one) => one.getDomNode() === el),
      read: (editor) => [editor.getValue(), Boolean(editor.getRawOptions().readOnly)],
      isWhole: (el, lines) => {
        const boxes = lines.map(boxOf);
        const top = Math.min(...lines.map((line) => parseFloat(line.style.top) || 0));
        return top === 0 && Math.max(...boxes.map((box) => box.bottom)) < boxOf(el).bottom;
      },
    },
  ];
  const ALL_TAKERS = MODELS.map((model) => model.takers).join(', ');
  const isShown = (el) => Boolean(el?.getClientRects().length);
  // null: of an editor it has no more than the class
  const readPainted = (el, model) => {
    const lines = [...el.querySelectorAll(model.lines)];
    const taker = el.querySelector(model.takers);
    if (!lines.length && !taker) return null;
    // they stand in the order in which they were painted
    const placed = lines.map((line) => ({line, top: boxOf(line).top})).sort((a, b) => a.top - b.top);
    const text = placed.map(({line}) => line.textContent).join('\n');
    const isReadOnly = Boolean(taker?.matches('[readonly], [aria-readonly=true]'));
    return {text, part: !lines.length || !model.isWhole(el, lines), isReadOnly};
  };
  const readModel = (el, model) => {
    try {
      const [text, isReadOnly] = model.read(model.open(el));
      if (typeof text === 'string') return {text, part: false, isReadOnly};
    } catch {
      // no handle, or one of another release
    }
    return readPainted(el, model);
  };

  const isBlocked = (el) => el.readOnly || el.matches(':disabled') || el.getAttribute('aria-readonly') === 'true';
  // what measures or mirrors a field for its page, and nobody ever sees
  const isMirror = (el) => el.getAttribute('aria-hidden') === 'true' && el.tabIndex < 0;
  const isField = (kind) => kind === 'textarea' || kind === 'input';
  const kindOf = (el) => {
    if (el.localName === 'textarea') return 'textarea';
    if (el.localName === 'input') return TEXT_INPUTS.has(el.type) ? 'input' : '';
    if (el.editContext) return 'editcontext';
    if (el.localName === 'body' && el.ownerDocument.designMode === 'on') return 'contenteditable';
    if (el.isContentEditable && !el.parentElement?.isContentEditable) return 'contenteditable';
    if (el.getAttribute('contenteditable') === 'false') return '';
    if (el.getAttribute('role') === 'textbox' && !el.isContentEditable) return 'textbox';
    return '';
  };
  const textOf = (el, kind) => {
    if (isField(kind)) return get(el, 'value');
    if (kind === 'editcontext') return el.editContext.text;
    // innerText says what is painted, and paint may be in capitals
    const isRecast = el.ownerDocument.defaultView?.getComputedStyle(el).textTransform !== 'none';
    return (isRecast ? el.textContent : el.innerText) ?? '';
  };
  // What a listing calls it, as far as its own attributes say.
  const nameOf = (el) => {
    const ids = (el.getAttribute('aria-labelledby') ?? '').split(/\s+/).filter(Boolean);
    const referred = ids.map((id) => el.getRootNode().getElementById?.(id)?.textContent ?? '').join(' ').trim();
    const labels = [...(el.labels ?? [])].map((label) => label.textContent).join(' ').trim();
    return referred || el.getAttribute('aria-label') || labels || el.getAttribute('title')
      || el.getAttribute('placeholder') || el.getAttribute('aria-placeholder') || '';
  };
  const LABELS = ['aria-label', 'placeholder', 'aria-placeholder', 'data-placeholder', 'name'];
  const labelOf = (el) => LABELS.map((name) => el.getAttribute(name)).find(Boolean) || el.getAttribute('id') || '';

  const editors = [];
  const add = ({el, kind, text, part, frame, named = el}) => {
    editors.push({el, kind});
    const url = el.ownerDocument.location?.href ?? '';
    const names = {label: labelOf(named).slice(0, 80), name: nameOf(named).slice(0, 200)};
    out.editables.push({frame, frame_url: url, kind, ...names, length: text.length, text, part});
  };
  const addEcho = (el, text) => {
    if (text) out.echoes.push({name: nameOf(el).slice(0, 200), text: text.slice(0, limits.echo)});
  };
  const WRITABLE = '[contenteditable=""], [contenteditable=true], [contenteditable=plaintext-only]';
  const squeeze = (text) => text.replace(/[\s\u200b\ufeff]/g, '');
  const isUnpainted = (el, model, {text, part}) => part
    || !squeeze(readPainted(el, model)?.text ?? '').includes(squeeze(text));
  // models that were read, and those within another editor of which its words show a part alone
  const wholes = [];
  const unpainted = [];
  const readOneModel = (el, model, frame) => {
    if (!isVisible(el) || el.parentElement?.closest(model.root)) return;
    const found = readModel(el, model);
    if (!found) return;
    wholes.push(el);
    const named = el.querySelector(model.takers) ?? el;
    // what stands within another editor is among that one's words, as far as it is painted
    if (el.parentElement?.closest(WRITABLE)) {
      if (isUnpainted(el, model, found)) unpainted.push(el);
    } else if (found.isReadOnly) addEcho(named, found.text);
    else add({el, kind: model.kind, text: found.text, part: found.part, frame, named});
  };
  const readModels = ({root, frame}) => {
    for (const model of MODELS) {
      for (const el of root.querySelectorAll(model.root)) attempt(() => readOneModel(el, model, frame));
    }
  };
  const focused = () => {
    let el = get(document, 'activeElement');
    while (el) {
      const root = get(el, 'shadowRoot') ?? get(el, 'contentDocument');
      const inner = root && get(root, 'activeElement');
      if (!inner) return el;
      el = inner;
    }
    return null;
  };
  // So small that the text is somewhere else, if it is of a text at all. An empty line of text has no width either.
  const isTiny = (el) => !isLarge(el, 8, 8) && !['body', 'html'].includes(el.localName)
    && el.ownerDocument.defaultView?.getComputedStyle(el).display !== 'inline';
  // A pane that only shows, and is listed as a text box all the same.
  const isPane = (el) => el.getAttribute('contenteditable') === 'false' && el.getAttribute('role') === 'textbox';
  const readOneEditable = (el, frame, taken) => {
    if (isPane(el) && isVisible(el)) addEcho(el, textOf(el, 'textbox'));
    const kind = kindOf(el);
    if (!kind || !isVisible(el) || isMirror(el) || el.matches(ALL_TAKERS)) return;
    if (isField(kind) && !isLarge(el, 8, 8)) return;
    // the words of an editor within another are the outer one's words too; a field's value is not
    if (!isField(kind) && taken.some((outer) => outer !== el && outer.contains(el))) return;
    if (kind === 'textbox' && wholes.some((inner) => el.contains(inner))) return;
    if (isBlocked(el)) {
      addEcho(el, textOf(el, kind));
      return;
    }
    if (!isField(kind)) taken.push(el);
    // an EditContext may hold no more than the lines around the caret
    const part = kind === 'editcontext' || (!isField(kind) && el === keyTaker && isTiny(el))
      || unpainted.some((inner) => el.contains(inner));
    add({el, kind, text: textOf(el, kind), part, frame});
  };
  const readEditables = ({root, frame, contexts}) => {
    readModels({root, frame});
    const taken = [];
    const found = [...root.querySelectorAll('textarea, input, [contenteditable], [role=textbox], body'), ...contexts];
    for (const el of new Set(found)) attempt(() => readOneEditable(el, frame, taken));
  };
  const holds = (outer, el) => {
    for (let node = el; node; node = node.parentNode ?? node.host) if (node === outer) return true;
    return false;
  };
  // Whether what takes the keys takes them for a text that was not read anywhere: a helper that nobody is to see, or
  // one in a frame of a few pixels.
  const isLeftOpen = (taker) => {
    if (isForm(taker)) return false;
    if (isFrame(taker)) return !taker.contentDocument && !isLarge(taker, 8, 8);
    const kind = kindOf(taker);
    if (!kind && !taker.isContentEditable) return false;
    if (isBlocked(taker) && isLarge(taker, 8, 8)) return false;
    if (wholes.some((el) => holds(el, taker) || (kind === 'textbox' && holds(taker, el)))) return false;
    const isOuter = (one) => !isField(kind) && !isField(one.kind) && one.kind !== 'textbox' && holds(one.el, taker);
    return !editors.some((one) => one.el === taker || isOuter(one));
  };

  // A wall, and not a field in a page's header, nor one beside an editor that can be used.
  const isSignInWall = () => {
    const fields = roots.flatMap(({root}) => [...root.querySelectorAll('input[type=password]')])
      .filter((el) => isVisible(el) && !el.closest(ASIDE));
    return fields.some((field) => {
      const form = field.form ?? field.parentElement;
      return !editors.some(({el, kind}) => kind !== 'input' && !form?.contains(el) && isOnTop(el));
    });
  };

  const isBadge = (el) => Boolean(el.closest('.grecaptcha-badge'));
  const isChallengeShown = () => {
    const widgets = framesSeen.filter((el) => CHALLENGE_HOST.test(el.src ?? '') && !isBadge(el));
    if (widgets.some((el) => isLarge(el, 200, 50))) return true;
    const named = roots.flatMap(({root}) => [...root.querySelectorAll('[id], [class]')]).filter((el) => {
      const names = `${el.getAttribute('id') ?? ''} ${el.getAttribute('class') ?? ''}`;
      return CHALLENGE_NAME.test(names) && !isBadge(el) && !['script', 'style', 'body', 'html'].includes(el.localName);
    });
    if (named.some((el) => isLarge(el, 200, 100) && isOnTop(el))) return true;
    const dialogs = roots.flatMap(({root}) => [...root.querySelectorAll('[role=dialog], dialog[open]')]);
    if (dialogs.some((el) => isVisible(el) && CHALLENGE_WORDS.test(el.innerText ?? ''))) return true;
    // a whole page that says little else and offers nothing to write in
    const said = get(document, 'body')?.innerText ?? '';
    return said.length < 1500 && !editors.length && CHALLENGE_WORDS.test(said);
  };

  collect(document, 0);
  const keyTaker = attempt(focused);
  for (const root of roots) attempt(() => readEditables(root));
  if (keyTaker && attempt(() => isLeftOpen(keyTaker), false)) out.takers += 1;
  // what fails from here on says nothing of the texts
  const failed = out.failed;
  out.password_form = attempt(isSignInWall);
  out.challenge = attempt(isChallengeShown);
  out.failed = failed;
  // An empty one holds nothing for sure; of the others none may be lost without a word.
  const full = out.editables.filter((item) => item.text);
  const empty = out.editables.filter((item) => !item.text).slice(0, limits.empty);
  let left = limits.chars;
  const brought = full.slice(0, limits.full).map((item) => {
    const text = item.text.slice(0, left);
    left -= text.length;
    return {...item, text};
  });
  out.skipped = full.length - brought.length;
  out.echoes = out.echoes.slice(0, limits.echoes);
  out.editables = [...brought, ...empty];
  // A page's toJSON (old libraries give arrays one) bends what stringify makes of an object, and of a text it does not.
  const write = (value) => {
    if (Array.isArray(value)) return `[${value.map(write).join(',')}]`;
    if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
    return `{${Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}:${write(inner)}`).join(',')}}`;
  };
  return write(out);
})
