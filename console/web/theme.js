// Applies the chosen theme before the first paint. A plain script, because modules run later.
(() => {
  let theme = "auto";
  try {
    theme = localStorage.getItem("pleach.theme") ?? "auto";
  } catch {
    // The browser keeps nothing: the theme of the device is used.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
