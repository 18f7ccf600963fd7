"""The rooms of server_probe.py: how a running server reads RoPE, and whether its context holds. Each imports from the
ones above it alone.

    common, report   problems, statuses, and tables or JSON on standard output
    asking           requests, the forms that servers understand, what they answer
    numbers          our numbers beside a server's: candidates, the decision between them, bounds of values
    no_model         a server's context by tasks, where it cuts, two servers beside each other
    solving          values that no list has: where the search begins, least squares, what is believed of it
    reading          all of it for one server, and the words for what was found
"""
