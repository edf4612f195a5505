"""What Connect keeps in Kafka, in Kafka Connect's own format: ``offsets`` reads and checks the offsets topic,
``offset_format`` is the form of its records.
"""
