"""A web page on which people decide the calls of an ``ApprovalQueue``."""
