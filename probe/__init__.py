"""The rooms of server_probe.py: a running server's reading of RoPE, and checks of its context. Each room only imports
from the ones above it.

    common, report   problems, statuses, and tables or JSON on standard output
    asking           requests, the forms that servers understand, and their answers
    numbers          our numbers and a server's: candidates, the decision between them, bounds of values
    no_model         a server's context: tasks, cut prompts, comparisons of two servers
    solving          values in no list: the starts of the search, least squares, tests of the result
    reading          the whole job for one server, and its findings in words
"""
