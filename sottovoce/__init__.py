"""The command line, top floor: parsing, wiring and printing only.

Each command is a module of `sottovoce.commands`, imported when it runs, so that the commands of
the device side work on a plain install.
"""
