"""The two resources as pydantic models, and everything that is generated from them."""
