"""`freshet bench papers`: every figure of the papers on semi-stream joins, measured beside what they published.

reproduce.py                          all figures, measured one after the other; their files
hybrid_join/  caching/  auto_choice.py    the figures of 000, those of 003, and one of our own
figure.py  claims.py                  what a figure shows, and what its paper claims
figure_setting.py  disks.py           the scale, and where R lies
contenders.py                         the algorithms, under the papers' names
measured_point.py  measured_lines.py  a point, tuned, predicted and measured; lines of points
presentation.py                       a figure as lines of text, Markdown, CSV and picture
"""
