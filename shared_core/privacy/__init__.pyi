from .redaction import PrivacyPolicy as PrivacyPolicy
