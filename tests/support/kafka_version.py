"""What depends on the version of Kafka that the tests run on (``SEMEL_KAFKA_VERSION``)."""

from __future__ import annotations

from semel.sandbox import chosen_version
from semel.steps import BEFORE_4_2, HEALING, Step

__all__ = ["NOT_PASSED", "SKIPS_EPOCHS"]

#: Brokers before 4.2 take late markers.
SKIPS_EPOCHS = chosen_version().startswith(("4.0.", "4.1."))
#: The steps that no owner passes there while markers are not lost.
NOT_PASSED: tuple[Step, ...] = HEALING if SKIPS_EPOCHS else (*HEALING, *BEFORE_4_2)
