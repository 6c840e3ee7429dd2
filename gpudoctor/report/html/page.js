const words = document.body.dataset;
for (const block of document.querySelectorAll("pre[data-copy]")) {
  const button = document.createElement("button");
  button.className = "copy"; button.type = "button"; button.textContent = words.copy;
  button.onclick = async () => {
    const text = block.dataset.copy;
    try { await navigator.clipboard.writeText(text); } catch {
      const area = document.createElement("textarea");
      area.value = text; document.body.append(area); area.select(); document.execCommand("copy"); area.remove();
    }
    button.textContent = words.copied; setTimeout(() => { button.textContent = words.copy; }, 1500);
  };
  block.append(button);
}
