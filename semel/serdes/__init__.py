"""Values to bytes and back, a column at a time: below the products, and the same for all of them.

=============  =======================================================================================================
``serde``      serdes by their names, as streams have them
``text``       text and bytes
``numbers``    numbers and booleans, the highest byte first
``json``       JSON as Kafka Connect writes it, and its schema
``java_text``  what Java's ``toString`` gives
``jackson``    single values as JSON, as Kafka Connect's library writes it
``columns``    lists, columns of several chunks, and what a column's values are
``unfit``      errors for values that a serde does not write
=============  =======================================================================================================
"""
