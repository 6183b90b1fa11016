from .store_import import StoreImport as StoreImport, import_store as import_store
