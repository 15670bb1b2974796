// One expression, evaluated in the page's own world by /api/browser/command. Gives a JSON text:
// {url, title, editables: [{frame, frame_url, kind, label, text, length}], frames, unread, password_form, challenge}.
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

  const out = {url: location.href, title: document.title, editables: [], frames: 0, unread: 0};
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

  // Every open root of the page: documents of same-origin frames and open shadow roots, in reading order.
  const collect = (root, frame) => {
    roots.push({root, frame});
    for (const el of root.querySelectorAll('*')) {
      if (el.shadowRoot) collect(el.shadowRoot, frame);
      if (el.localName !== 'iframe' && el.localName !== 'frame') continue;
      framesSeen.push(el);
      if (!isLarge(el, 8, 8)) continue;
      out.frames += 1;
      const inner = el.contentDocument;
      if (inner) collect(inner, out.frames);
      else out.unread += 1;
    }
  };

  const isBlocked = (el) => el.readOnly || el.disabled || el.getAttribute('aria-readonly') === 'true';
  const kindOf = (el) => {
    if (el.localName === 'textarea') return 'textarea';
    if (el.localName === 'input') return TEXT_INPUTS.has(el.type) ? 'input' : '';
    if (el.editContext) return 'editcontext';
    if (el.localName === 'body' && el.ownerDocument.designMode === 'on') return 'contenteditable';
    if (el.isContentEditable && !el.parentElement?.isContentEditable) return 'contenteditable';
    if (el.getAttribute('role') === 'textbox' && !el.isContentEditable) return 'textbox';
    return '';
  };
  const textOf = (el, kind) => {
    if (kind === 'textarea' || kind === 'input') return el.value;
    return kind === 'editcontext' ? el.editContext.text : el.innerText ?? '';
  };
  const labelOf = (el) => el.getAttribute('aria-label') || el.getAttribute('placeholder')
    || el.getAttribute('name') || el.id || '';

  const editors = [];
  const readEditables = ({root, frame}) => {
    const url = root.nodeType === Node.DOCUMENT_NODE ? root.location?.href : root.ownerDocument.location?.href;
    const taken = [];
    for (const el of root.querySelectorAll('textarea, input, [contenteditable], [role=textbox], body')) {
      const kind = kindOf(el);
      if (!kind || isBlocked(el) || !isVisible(el)) continue;
      // the words of an editor within another are the outer one's words too; a field's value is not
      const hasValue = kind === 'textarea' || kind === 'input';
      if (!hasValue && taken.some((outer) => outer !== el && outer.contains(el))) continue;
      if (!hasValue) taken.push(el);
      editors.push({el, kind});
      const text = textOf(el, kind);
      out.editables.push({frame, frame_url: url ?? '', kind, label: labelOf(el).slice(0, 80), length: text.length, text});
    }
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
      const names = `${el.id} ${el.getAttribute('class') ?? ''}`;
      return CHALLENGE_NAME.test(names) && !isBadge(el) && !['script', 'style', 'body', 'html'].includes(el.localName);
    });
    if (named.some((el) => isLarge(el, 200, 100) && isOnTop(el))) return true;
    const dialogs = roots.flatMap(({root}) => [...root.querySelectorAll('[role=dialog], dialog[open]')]);
    if (dialogs.some((el) => isVisible(el) && CHALLENGE_WORDS.test(el.innerText ?? ''))) return true;
    // a whole page that says little else and offers nothing to write in
    const said = document.body?.innerText ?? '';
    return said.length < 1500 && !editors.length && CHALLENGE_WORDS.test(said);
  };

  collect(document, 0);
  roots.forEach(readEditables);
  out.password_form = isSignInWall();
  out.challenge = isChallengeShown();
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
  out.editables = [...brought, ...empty];
  return JSON.stringify(out);
})
