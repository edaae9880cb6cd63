"""Landing folders as a source.

kind.py          what the other rooms ask
on the driver    landed_files.py   what is new, in which order and which pieces
                 after_load.py     archives or deletes what was loaded
in a task        reading.py        a slice of a file to arrivals
                 planned_file.py   the file, which must be the one that was planned
                 bounds.py         what one packed file may become
                 damage.py         whether a file is damaged, or the machine can't read it
for the proof    landing.py        what has landed, and what the ledger says of it
for the status   landing_look.py   what lands while no driver looks
all              names.py          what a file's name says, and how the ledger writes it
                 regular_files.py  opens nothing but regular files
"""
