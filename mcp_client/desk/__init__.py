"""A web page on which people decide the requests of an ``ApprovalQueue``."""
