"""Requests and answers: the only package that knows kafka-python, whose schemas it uses (DESIGN section 2).

==================  ==================================================================================================
``client``          ask a broker, a coordinator, or the leaders, within a deadline
``target``          whom a request goes to
``connection``      one TCP connection: frames out, frames in
``responses``       decoding of answers, and what may not be null in them
``flexible``        the encoding of what is read and written by hand
``security``        what lies between the socket and the frames: TLS, SASL
``oauth``           tokens for SASL's OAUTHBEARER, fetched and kept
``api_versions``    which versions and features a broker has
``metadata``        brokers, topics, leaders, leader epochs
``metadata_cache``  the newest of them, and what each broker says where one may be behind
``pool``            connections: which are open, and who may use them
``deadline``        how long to repeat, and how long to pause
``error_codes``     what each error code asks for: one table
``groups``          membership in a consumer group
``task_assignor``   shares the tasks of streams out among the members, so that they stay where their state is
``acl_hints``       which right is missing where a broker refuses for lack of one
``api``             one file for each family of requests
==================  ==================================================================================================
"""
