"""What PostgreSQL's catalog says of a relation.

| file | what it holds |
|---|---|
| describe | `describe_relation`: the way in |
| columns | its columns, and which collations sort text by its bytes |
| column_checks | whether the columns that a lookup names fit the stream |
| declared_types | whether the columns that lookups read still have the types with which they were described |
| indexes | which index lookups go by, and which one pages are read by |
| sizes | how many tuples it has, and whether it fits into memory |
| sql_names | names as one would write them in SQL, for error messages |
"""
