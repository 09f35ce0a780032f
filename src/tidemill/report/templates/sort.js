"use strict";
// Tables can be sorted by a column: its head becomes a button. Without this they stand as written.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (head.tagName !== "TH") return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row, index) => [key(row.cells[column]), index, row]);
      rows.sort((a, b) => (down ? -1 : 1) * compare(a[0], b[0]) || a[1] - b[1]);
      body.append(...rows.map((row) => row[2]));
    });
  });
}
function key(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  const number = parseFloat(text.replace(/[^0-9.-]/g, ""));
  return cell.classList.contains("number") && !Number.isNaN(number) ? number : text;
}
function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number" || typeof b === "number") return typeof a === "number" ? 1 : -1;
  return a.localeCompare(b);
}
