// The table of figures, as the server tells it: what each column of the overview is, and the values of each pipeline.

let table = { columns: [], figures: {} };

/** @param {{columns: object[], figures: Object<string, Object<string, number>>}} told by the server. */
export function learnFigures({ columns, figures }) {
  table = { columns, figures };
}

/** The columns, in their order: [{key, heading, meaning, unit, is_roomy, is_ordered}]. */
export const columns = () => table.columns;

/** A figure of a pipeline; undefined while it is not known. */
export const figure = (status, key) => table.figures[status.name]?.[key];

/** What a column tells. */
export const meaningOf = (key) => table.columns.find((column) => column.key === key)?.meaning;
