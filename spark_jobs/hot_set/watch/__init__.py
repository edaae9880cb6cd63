"""The watch over R: a thread of the driver that brings changes into the front stages.

relation_watch.py  lookup_watch.py    the thread, and its work for one lookup
noticing.py                           changes that triggers note
rereading.py                          where no trigger can be: all hot tuples, round after round
separate_steps.py                     a lookup that fails keeps no other from its step
"""
