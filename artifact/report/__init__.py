"""From results to pages: one file a format. They decide nothing and compute no statistics."""
