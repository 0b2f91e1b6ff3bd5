"""Programs for wherever a sandbox's files are: each one file of plain Python 3.9, which imports nothing of ours.

The operator calls them where it can reach the files itself. Elsewhere the text of the file is the program of a process
that can.
"""
