"""Kafka Connect's own converters and transformations, asked about a few records: ``make oracle-connect``.

``answers.json`` holds the cases with what they answered. ``tests/connect/unit/test_kafka_answers.py`` compares semel.
"""
