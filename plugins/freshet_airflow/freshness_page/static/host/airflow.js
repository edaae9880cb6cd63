// The Airflow around this page: its addresses, its theme, and the frame that the page is shown in.
//
// Airflow shows the page in a sandboxed frame of its own origin: links may not open windows or leave the frame,
// scripts may reach the page around. So links are followed there.

/** Address of something in Airflow, from its root: airflowAddress("dags/orders"). */
export const airflowAddress = (path) => new URL(`../${path}`, document.baseURI).href;

/** Address of something of this page's own application. */
export const pageAddress = (path) => new URL(path, document.baseURI).href;

/** The document around the frame, or this one when the page is opened by itself. */
export function hostDocument() {
  try {
    return window.parent.document;
  } catch {
    return document; // another site's page: the browser keeps it apart
  }
}

export const isFramed = () => hostDocument() !== document;

/** Follow the links of the page as if Airflow's own page held them. Links to places within the page stay here. */
export function followLinksInHost() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || link.getAttribute("href").startsWith("#") || !isFramed()) return;
    event.preventDefault();
    const twin = hostDocument().createElement("a");
    twin.href = link.href;
    twin.rel = "noopener";
    if (event.ctrlKey || event.metaKey || link.target === "_blank") twin.target = "_blank";
    hostDocument().body.append(twin);
    twin.click();
    twin.remove();
  });
}
