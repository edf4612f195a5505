"""HTTP for programs and browsers: one server, its logins and limits, and the shell and style of pages.

===============  =======================================================================================================
``server``       the life of a server: it takes its ports, answers on a thread of its own, and ends
``listener``     an address that it listens on
``app``          the application of some routes; a path with a slash at its end is the path without
``access``       who may ask: Host and Origin are checked, then a login if there is one
``basic_login``  a login by user and password
``answers``      JSON, what an error answers, and the longest body of a request
``page``         a page: its title, body and script in the shell that all share. The folder "static" holds their style
                 and script
===============  =======================================================================================================

It needs the packages starlette and uvicorn, which only the extra ``connect`` brings. ``listener`` needs neither.
"""
