// Search over the passages of all pages, in the reader's browser. The text is loaded when
// the field is first used. A passage has to have every word; a word counts where another one
// begins with it, and more in a heading or a title than in the text.
"use strict";
(() => {
  const field = document.getElementById("search");
  const list = document.getElementById("found");
  const root = document.documentElement.dataset.root;
  let loading;

  const load = () => loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = root + "search-data.js";
    script.onload = () => {
      for (const p of window.passages) {
        p.head = " " + (p.p + " " + p.h).toLowerCase();
        p.body = " " + p.t.toLowerCase();
      }
      resolve();
    };
    script.onerror = reject;
    document.head.append(script);
  });

  const begins = (text, word) => {
    for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
      if (!/[a-z0-9]/.test(text[at - 1])) return true;
    }
    return false;
  };

  const score = (p, words, phrase) => {
    let sum = 0;
    for (const word of words) {
      const inHead = begins(p.head, word), inBody = begins(p.body, word);
      if (!inHead && !inBody) return 0;
      sum += (inHead ? 8 : 0) + (inBody ? 1 : 0);
    }
    if (p.head.includes(phrase)) sum += 8;
    if (p.body.includes(phrase)) sum += 4;
    return sum / (1 + p.body.length / 20000);
  };

  const around = (p, word) => {
    const at = Math.max(0, p.body.indexOf(word) - 60);
    return (at > 0 ? "…" : "") + p.t.slice(at, at + 160) + "…";
  };

  const show = () => {
    const phrase = field.value.toLowerCase().trim();
    const words = phrase.split(/\s+/).filter((w) => w.length > 1);
    list.replaceChildren();
    list.hidden = words.length === 0;
    if (list.hidden) return;
    const found = [];
    for (const p of window.passages) {
      const s = score(p, words, phrase);
      if (s > 0) found.push([s, p]);
    }
    found.sort((a, b) => b[0] - a[0]);
    for (const [, p] of found.slice(0, 20)) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = root + p.a;
      link.textContent = p.p === p.h ? p.h : p.p + " › " + p.h;
      const text = document.createElement("small");
      text.textContent = around(p, words[0]);
      item.append(link, text);
      list.append(item);
    }
    if (found.length === 0) {
      const item = document.createElement("li");
      item.textContent = "Nothing has all of these words.";
      list.append(item);
    }
  };

  field.addEventListener("focus", load);
  field.addEventListener("input", () => load().then(show));
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && document.activeElement !== field) {
      e.preventDefault();
      field.focus();
    } else if (e.key === "Escape") {
      field.value = "";
      list.hidden = true;
    }
  });
})();
