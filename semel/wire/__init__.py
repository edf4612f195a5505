"""Requests and answers: the only package that knows kafka-python, whose schemas it uses (DESIGN section 2).

=====================  ===============================================================================================
``client``             requests to a broker, a coordinator, or the leaders, within a deadline
``target``             the target of a request: a broker, any broker, a coordinator
``connection``         one TCP connection: frames out, frames in
``responses``          decoding of answers, with checks for nulls
``flexible``           the encoding of frames that are read and written by hand
``security``           the layers between the socket and the frames: TLS, SASL
``stores``             Java's stores of keys and certificates, as PEM
``aws_login``          tokens for the identity of AWS that a machine has
``oauth``              tokens for SASL's OAUTHBEARER, fetched and kept
``api_versions``       the API versions and features of a broker
``metadata``           brokers, topics, leaders, leader epochs
``metadata_cache``     the newest metadata, and each broker's answer if one may lag
``pool``               the open connections, and their users
``deadline``           the time limit of repetitions, and the pauses between them
``backoff``            the pause before something is tried again
``error_codes``        the action for each error code: one table
``group_member``       a member of a group: joins, sends heartbeats, leaves
``fetch_session``      what a broker remembers of a reader's requests
``consumer_protocol``  subscriptions and assignments of consumer groups, and their assignors
``acl_hints``          the right that is missing when a broker refuses
``api``                a file for each family of requests
=====================  ===============================================================================================
"""
