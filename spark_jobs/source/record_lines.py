def line_end_at_or_after(path, offset):
    with open(path, "rb") as f:
        f.seek(offset - 1)
        rest = f.readline()
        return f.tell()
