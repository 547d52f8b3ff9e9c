// Searches SECTIONS, a list of [page, anchor, title, headings above, text], in place of Sphinx's search of whole pages.
"use strict";

/** Places that are shown: in all, and below one heading. */
const MOST = 40;
const MOST_OF_ONE = 3;

/** The words of a text, small; what begins with dashes keeps them, so that an option can be asked for. */
function wordsOf(text) {
  return text.toLowerCase().match(/-{0,2}[\p{L}\p{N}]+(?:[._/+-]+[\p{L}\p{N}]+)*\+*/gu) || [];
}

/** Words that say nothing of what is looked for, unless there are no others. */
const EMPTY = new Set("a an and are as at be by do does for from how i in is it my of on or the to what where why with".split(" "));

/** How often each word stands there; what is joined by signs counts in parts, too. */
function countsOf(text) {
  const counts = new Map();
  const add = (word, weight) => counts.set(word, (counts.get(word) || 0) + weight);
  for (const word of wordsOf(text)) {
    add(word, 1);
    const names = word.split(".").filter((part) => part);
    if (names.length > 1) names.forEach((part) => add(part, 1));
    const parts = word.split(/[._/+-]+/u).filter((part) => part);
    if (parts.length > names.length || parts[0] !== word) parts.forEach((part) => add(part, 0.5));
  }
  return counts;
}

/** How well a word is met: whole, or as a beginning of three letters at least. */
function met(counts, word) {
  let found = counts.get(word) || 0;
  if (word.length >= 3) {
    for (const [other, count] of counts) {
      if (other !== word && other.startsWith(word)) found += (0.7 * count * word.length) / other.length;
      else if (other.length >= 4 && word.startsWith(other) && word.length - other.length <= 2) found += 0.5 * count;
    }
  }
  return found;
}

/** The places that a question may mean, the best first. */
function findSections(sections, question) {
  const asked = [...new Set(wordsOf(question))];
  const told = asked.filter((word) => !EMPTY.has(word));
  const words = told.length ? told : asked;
  const whole = question.trim().toLowerCase();
  if (!words.length) return [];
  const meetings = sections.map(([page, anchor, title, around, text]) => {
    const [inTitle, inAround, inText] = [title, around, text].map(countsOf);
    return words.map((word) => [met(inTitle, word), met(inAround, word), met(inText, word)]);
  });
  // What stands everywhere tells little.
  const rare = words.map((_, place) => {
    const having = meetings.filter((each) => each[place].some((value) => value > 0)).length;
    return Math.log(1 + sections.length / (1 + having));
  });
  const found = [];
  sections.forEach(([page, anchor, title, around, text], number) => {
    const length = text.length / 600;
    let score = 0;
    let hit = 0;
    meetings[number].forEach(([inTitle, inAround, inText], place) => {
      if (inTitle || inAround || inText) hit += 1;
      const within = (2.2 * inText) / (inText + 0.4 + 0.8 * length);
      score += rare[place] * (6 * Math.min(1, inTitle) + 2.5 * Math.min(1, inAround) + within);
    });
    if (!hit) return;
    const name = title.toLowerCase();
    if (name === whole || name.endsWith(`.${whole}`)) score *= 3;
    else if (name.includes(whole)) score *= 1 + whole.length / name.length;
    if (words.length > 1 && text.toLowerCase().includes(whole)) score *= 1.6;
    found.push({ page, anchor, title, around, text, score: score * (hit / words.length) ** 3 });
  });
  found.sort((one, other) => other.score - one.score);
  // Rows of one table stand together, and are not all there is.
  const shown = new Map();
  const isShown = ({ page, around }) => {
    const key = `${page} ${around}`;
    shown.set(key, (shown.get(key) || 0) + 1);
    return shown.get(key) <= MOST_OF_ONE;
  };
  return found.filter(isShown).slice(0, MOST);
}

/** A few words around the first that was asked for. */
function excerpt(text, question) {
  const small = text.toLowerCase();
  const places = wordsOf(question).map((word) => small.indexOf(word)).filter((place) => place >= 0);
  const start = Math.max(0, (places.length ? Math.min(...places) : 0) - 60);
  return (start ? "… " : "") + text.slice(start, start + 220) + (text.length > start + 220 ? " …" : "");
}

/** Show what was found, each place with the headings above it and a few words. */
function showSections(question) {
  const found = findSections(SECTIONS, question);
  const head = document.createElement("h2");
  head.textContent = found.length ? `What is found of “${question}”` : `Nothing is found of “${question}”`;
  const list = document.createElement("ul");
  list.className = "search";
  for (const each of found) {
    const link = document.createElement("a");
    link.href = `${each.page}.html${each.anchor ? `#${each.anchor}` : ""}`;
    link.textContent = each.title;
    const around = document.createElement("span");
    around.className = "section-around";
    around.textContent = each.around;
    const words = document.createElement("p");
    words.className = "context";
    words.textContent = excerpt(each.text, question);
    const item = document.createElement("li");
    item.append(link, " ", around, words);
    list.append(item);
  }
  document.getElementById("search-results").replaceChildren(head, list);
}

if (typeof document !== "undefined") {
  document.addEventListener("DOMContentLoaded", () => {
    // Sphinx's script asks for the question and calls this.
    Search.performSearch = showSections;
  });
}
