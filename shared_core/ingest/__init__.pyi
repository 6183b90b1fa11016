from .item_batch import one_error as one_error
