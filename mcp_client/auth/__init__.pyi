# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .code_request import Deviations as Deviations
from .grants import ClientCredentials as ClientCredentials
from .grants import EnterpriseAuthorization as EnterpriseAuthorization
from .grants import IdentityProvider as IdentityProvider
from .grants import WorkloadIdentity as WorkloadIdentity
from .httpx_auth import BearerToken as BearerToken
from .oauth import OAuth as OAuth
from .steps import DeviceLogin as DeviceLogin
from .store import FileTokens as FileTokens
from .store import KeyringTokens as KeyringTokens
from .store import MemoryTokens as MemoryTokens
from .store import TokenStore as TokenStore
from .tokens import Token as Token
