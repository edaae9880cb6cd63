// Asks before something serious is done.

const dialog = document.getElementById("question");
const yes = document.getElementById("question-yes");
const no = document.getElementById("question-no");

/** Whether the answer is yes: the button says what will be done. Escape means no. */
export function ask(deed, text) {
  document.getElementById("question-title").textContent = `${deed}?`;
  document.getElementById("question-text").textContent = text;
  yes.textContent = deed;
  return new Promise((answer) => {
    yes.onclick = () => dialog.close("yes");
    no.onclick = () => dialog.close("no");
    dialog.onclose = () => answer(dialog.returnValue === "yes");
    dialog.returnValue = "no";
    dialog.showModal();
    no.focus();
  });
}
