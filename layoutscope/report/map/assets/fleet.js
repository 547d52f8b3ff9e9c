"use strict";
(() => {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  const table = document.getElementById("volumes");
  if (table) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    const order = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
    const value = (row, column) => {
      const cell = row.cells[column];
      if (cell.dataset.v === undefined) return cell.textContent;
      return cell.dataset.v === "" ? null : Number(cell.dataset.v);
    };
    const sort = (column, down) => {
      const keyed = rows.map((row) => [value(row, column), row]);
      keyed.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null); // what is not known stands last in both orders
        const way = typeof a === "number" ? a - b : order.compare(a, b);
        return down ? -way : way;
      });
      body.append(...keyed.map(([, row]) => row));
      heads.forEach((head, place) => {
        if (place === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
    };
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      const first = head.classList.contains("n"); // of numbers the largest are looked for, of names the first
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        sort(column, now ? now === "ascending" : first);
      });
    });
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const input = document.getElementById("search");
    const shown = document.getElementById("shown");
    const search = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of rows) {
        row.hidden = !words.every((word) => texts.get(row).includes(word));
        if (!row.hidden) count += 1;
      }
      shown.textContent = `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")} shown`;
    };
    input.addEventListener("input", search);
    document.querySelector(".bar").hidden = false;
    search();
  }
  root.dataset.ready = "yes";
})();
