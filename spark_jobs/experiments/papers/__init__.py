"""`freshet bench papers`: the papers' figures, measured beside what was published.

reproduce.py                          all figures, measured one after the other; their files
hybrid_join/  caching/                the figures of 000 and 003
sketches/  punctuations/              those of 001: join sizes by sketches; PJoin
multiple_streams/  sort_based/        those of 002 and 004
auto_choice.py                        one of our own
figure.py  claims.py                  what a figure shows, and what its paper claims
figure_setting.py  disks.py           the scale, and where R lies
contenders.py                         the algorithms, under the papers' names
measured_point.py  measured_lines.py  a point, tuned, predicted and measured; lines of points
presentation.py                       a figure as lines of text, Markdown, CSV and picture
"""
