// Without this script the page works by plain forms; with it, answers come in place.
document.addEventListener("DOMContentLoaded", () => {
  const page = document.documentElement;
  const [ask, upload, results, drop, words, file] =
    ["ask", "upload", "results", "drop", "q", "picture"].map((id) => document.getElementById(id));
  let latest = 0;
  page.classList.add("scripted");
  words.setSelectionRange(words.value.length, words.value.length);

  function say(sentence) {
    const line = document.createElement("p");
    line.className = "problem";
    line.setAttribute("role", "alert");
    line.textContent = sentence;
    results.replaceChildren(line);
  }

  async function show(address, options) {
    const mine = ++latest; // an answer that comes late must not replace a newer one
    results.classList.add("waiting");
    try {
      const answer = await fetch(address, options);
      const html = await answer.text();
      if (mine === latest) results.innerHTML = html;
    } catch {
      if (mine === latest) say("The server does not answer. Is it still running?");
    } finally {
      if (mine === latest) results.classList.remove("waiting");
    }
  }

  function follow(query, remember = true) {
    if (remember) history.pushState(null, "", "/?" + query);
    const asked = new URLSearchParams(query);
    words.value = asked.get("q") ?? "";
    show("/results?" + query);
    window.scrollTo({ top: 0 });
  }

  ask.addEventListener("submit", (event) => {
    event.preventDefault();
    if (words.value.trim()) follow(new URLSearchParams({ q: words.value }).toString());
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='/?']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    follow(link.getAttribute("href").slice(2));
  });
  window.addEventListener("popstate", () => {
    if (location.search) follow(location.search.slice(1), false);
    else location.reload();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== words) {
      event.preventDefault();
      words.select();
    }
  });

  if (!upload) return; // the model takes no pictures

  function byPicture(picture) {
    if (!picture) return;
    if (picture.type && !picture.type.startsWith("image/")) {
      say("“" + picture.name + "” is not a picture.");
    } else if (picture.size > Number(upload.dataset.limit)) {
      const most = Math.round(Number(upload.dataset.limit) / 2 ** 20);
      say("The picture has more than " + most + " MB: make it smaller first.");
    } else {
      const form = new FormData();
      form.append("picture", picture);
      words.value = "";
      history.pushState(null, "", "/");
      show("/results", { method: "POST", body: form });
    }
    file.value = "";
  }

  file.addEventListener("change", () => byPicture(file.files[0]));
  document.addEventListener("paste", (event) => {
    const pasted = [...event.clipboardData.files][0];
    if (pasted) byPicture(pasted);
  });

  const carriesFiles = (event) => event.dataTransfer.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    drop.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) drop.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    drop.hidden = true;
    byPicture(event.dataTransfer.files[0]);
  });
});
