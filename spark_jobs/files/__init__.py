"""Files that crashes and other processes may come upon: whole on the disk, checked when read, versioned, locked."""
