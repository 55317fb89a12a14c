# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .code_request import Deviations as Deviations
from .httpx_auth import BearerToken as BearerToken
from .oauth import OAuth as OAuth
from .service import ClientCredentials as ClientCredentials
from .service import EnterpriseAuthorization as EnterpriseAuthorization
from .service import IdentityProvider as IdentityProvider
from .service import WorkloadIdentity as WorkloadIdentity
from .steps import DeviceLogin as DeviceLogin
from .store import FileTokens as FileTokens
from .store import KeyringTokens as KeyringTokens
from .store import MemoryTokens as MemoryTokens
from .store import TokenStore as TokenStore
from .tokens import Token as Token
