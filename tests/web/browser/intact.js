// Everything in the document that no template of ours wrote.
() => {
  const found = [];
  const ours = (address) => {
    try { const url = new URL(address, location.href); return url.origin === location.origin && /^https?:$/.test(url.protocol); }
    catch { return false; }
  };
  // The field of a filter holds the name itself, or sending the form again would ask for another.
  const isFilter = (element, name) => /^(INPUT|OPTION)$/.test(element.tagName) && name === "value" && element.closest("form.filters");
  for (const element of document.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      if (/^on|^style$|^srcdoc$|^xlink:/i.test(name)) found.push(`${element.tagName} ${name}=${value}`);
      const leadsAway = name === "href" && element.rel === "noreferrer noopener" && value.startsWith("https://example.com/");
      if (/^(href|src|action|formaction|data|poster)$/i.test(name) && !ours(value) && !leadsAway) found.push(`${element.tagName} ${name}=${value}`);
      if (/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(value) && !isFilter(element, name)) found.push(`${element.tagName} ${name} has controls`);
    }
  }
  for (const element of document.querySelectorAll("img, iframe, frame, object, embed, base, style, meta[http-equiv], foreignObject, textarea:not(form.definition > label > textarea, form.definition .field > textarea), video, audio, template"))
    found.push(element.outerHTML.slice(0, 200));
  for (const script of document.scripts) if (!/^\/static\/app\.[0-9a-f]{12}\.js$/.test(new URL(script.src || "x:y").pathname)) found.push("a script");
  for (const sheet of document.querySelectorAll("link")) if (!sheet.href.startsWith(location.origin + "/static/")) found.push(sheet.outerHTML);
  for (const form of document.forms) if (form.method === "post" && !form.getAttribute("action").startsWith("/")) found.push(form.outerHTML);
  if (document.querySelectorAll("[autofocus], #list #list, main main").length) found.push("a copy of a part, or a stolen focus");
  if ("pwned" in window) found.push("pwned");
  if (/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(document.documentElement.textContent)) found.push("controls in the text");
  return found;
}
