from .items import one_error as one_error
