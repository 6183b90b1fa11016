from .embedders import (
    BUNDLED as BUNDLED,
    CallableEmbedder as CallableEmbedder,
    resolve_embedder as resolve_embedder,
)
from .failures import (
    coded_failure as coded_failure,
    model_failure as model_failure,
    refuses_schema as refuses_schema,
    shortened_message as shortened_message,
)
from .language_model import (
    Finish as Finish,
    FunctionModel as FunctionModel,
    LanguageModel as LanguageModel,
    ModelReply as ModelReply,
    ModelRequest as ModelRequest,
    hosted as hosted,
    resolve_language_model as resolve_language_model,
)
from .strict_schema import strict_schema as strict_schema
