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
