"""Requests and answers: the only package that knows kafka-python, whose schemas it uses (DESIGN section 2).

====================  =================================================================================
``client``            ask a broker, a coordinator, or the leaders, within a deadline
``target``            whom a request goes to
``connection``        one TCP connection: frames out, frames in
``answers``           what kafka-python reads in them, and what may not be null there
``flexible``          the encoding of what is read and written by hand
``security``          what lies between the socket and the frames: TLS, SASL
``tokens``            tokens for SASL's OAUTHBEARER, fetched and kept
``versions``          which versions and features a broker has
``metadata``          brokers, topics, leaders, leader epochs
``witnesses``         what each broker says of the cluster, where one may be behind
``deadline``          how long to repeat, and how long to pause
``outcome``           what each error code asks for: one table
``rights``            which right is missing where a broker refuses for lack of one
``authorized``        what the caller may do, asked without writing
``clock``             the cluster's time against ours
``produce``           record batches to partitions, pipelined
``fetch``             record batches from partitions
``offsets``           of partitions and of consumer groups
``transactions``      identities, partitions, offsets, ends, descriptions
``topics``            create and describe
====================  =================================================================================
"""
