// "/" goes to the search, unless somebody is typing.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.closest("input, textarea, select")) return;
  const search = document.querySelector("[role=search] input[type=search]");
  if (!search) return;
  event.preventDefault();
  search.focus();
  search.select();
});

// "Choose all" ticks every box of its form.
document.addEventListener("change", (event) => {
  const all = event.target;
  if (!all.matches("input.choose-all")) return;
  for (const box of all.form.querySelectorAll("input[name=id]")) box.checked = all.checked;
});
