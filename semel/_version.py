"""The version of semel. It stands alone, so that every layer may import it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
