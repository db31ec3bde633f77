"""The pages under /: collection, privacy and results at a glance, for people.

Each page has a module that gathers what it says, and a template of the same name that says it.
Nothing here changes anything, runs a script in the browser, or shows more than is published.
"""
