"""HTTP for programs and browsers: one server, its logins and limits, and the shell and style of pages.

=====================  ===============================================================================================
``server``             the life of a server: it takes its ports, answers on a thread of its own, and ends
``listener``           an address that it listens on
``rest_config``        the settings of a server: its addresses, their TLS and logins
``app``                the application of some routes; a path with a slash at its end is the path without
``access``             who may ask: Host and Origin are checked, then a login if there is one
``basic_login``        a login by user and password; ``basic_header`` is what its clients send
``answers``            JSON, what an error answers, and the longest body of a request
``calls``              a request of REST, its JSON, and the status of each error
``connector_offsets``  the offsets in a body, as Kafka Connect has them
``page``               a page: its title, body and script in the shell that all share. The folder "static" holds
                       their style and script
=====================  ===============================================================================================

It needs the packages starlette and uvicorn, which only the extra ``connect`` brings. ``listener`` and
``rest_config`` need neither.
"""
