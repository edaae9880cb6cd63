"""Join keys, of stream tuples and of R's tuples.

| file | what it holds |
|---|---|
| key_columns | `KeyColumns`: the keys of n tuples as codes and as bytes, compared, encoded, decoded and stored |
| key_texts | keys as texts that PostgreSQL reads |
| values | the kinds of key columns, and their values in the form that keys are compared in |
"""
