"""Tries to get out of the sandbox that scripts run in: code, by what it goes for.

Each begins with a few constants: CANARY is a file with the secret in it, OUT a file that is not
there yet, FOLDER the directory of both, VARIABLE a variable of the environment with the secret,
PORT where a server listens on this machine. ``files`` is the server, with the tools ``read``,
which is allowed, and ``delete``, which is not.
"""

from __future__ import annotations

__all__ = ["ALONE", "ASKED", "BOUNDED", "CALLS", "OUTSIDE"]

_FILES = """
open_it|print(open(CANARY).read())
open_bytes|print(open(CANARY, "rb").read())
io|import io; print(io.open(CANARY).read())
os_open|import os; print(os.read(os.open(CANARY, os.O_RDONLY), 99))
path|from pathlib import Path; print(Path(CANARY).read_text())
path_bytes|import pathlib; print(pathlib.Path(CANARY).read_bytes())
codecs|import codecs; print(codecs.open(CANARY).read())
linecache|import linecache; print(linecache.getlines(CANARY))
fileinput|import fileinput; print(list(fileinput.input(CANARY)))
tokenize|import tokenize; print(tokenize.open(CANARY).read())
mmap|import mmap, os; print(bytes(mmap.mmap(os.open(CANARY, 0), 0, prot=mmap.PROT_READ)))
shutil|import shutil; shutil.copy(CANARY, OUT)
listing|import os; print(os.listdir(FOLDER)[0] and open(CANARY).read())
proc|print(open("/proc/self/environ").read())
proc_parent|import os; print(open(f"/proc/{os.getppid()}/environ").read(), open(CANARY).read())
ctypes|import ctypes; ctypes.CDLL(None).creat(OUT.encode(), 0o600)
write|open(OUT, "w").write("out")
write_path|from pathlib import Path; Path(OUT).write_text("out")
mkdir|import os; os.mkdir(OUT)
symlink|import os; os.symlink(CANARY, OUT)
rename|import os; os.rename(CANARY, OUT)
touch|import pathlib; pathlib.Path(OUT).touch()
unlink|import os; os.unlink(CANARY)
truncate|open(CANARY, "w").close()
chdir|import os; os.chdir(FOLDER); print(open(os.path.basename(CANARY)).read())
sqlite|import sqlite3; sqlite3.connect(OUT).execute("create table a (b)")
logging|import logging; logging.FileHandler(OUT).emit(logging.makeLogRecord({}))
eval_open|print(eval("open(CANARY).read()"))
exec_open|exec("print(open(CANARY).read())")
compile_open|exec(compile("print(open(CANARY).read())", "x", "exec"))
import_builtin|print(__import__("builtins").open(CANARY).read())
importlib|import importlib; print(importlib.import_module("io").open(CANARY).read())
builtins_name|its = __builtins__ if type(__builtins__) is dict else vars(__builtins__)
print(its["open"](CANARY).read())
loader|print(__loader__.load_module("io").open(CANARY).read())
"""
_PROCESSES = """
system|import os; os.system(f"touch {OUT}")
popen|import os; print(os.popen(f"cat {CANARY}").read())
subprocess|import subprocess; print(subprocess.check_output(["cat", CANARY]))
fork|import os; child = os.fork()
if child == 0: open(OUT, "w").close(); os._exit(0)
os.waitpid(child, 0)
exec|import os; os.execvp("touch", ["touch", OUT])
spawn|import os; os.spawnvp(os.P_WAIT, "touch", ["touch", OUT])
pty|import pty; pty.spawn(["touch", OUT])
pickle|import pickle; pickle.loads(f"cos\\nsystem\\n(S'touch {OUT}'\\ntR.".encode())
thread|import threading; t = threading.Thread(target=lambda: open(OUT, "w")); t.start(); t.join()
asyncio_process|import asyncio; await (await asyncio.create_subprocess_exec("touch", OUT)).wait()
"""
_ENVIRONMENT = """
environ|import os; print(os.environ[VARIABLE])
environ_all|import os; print(dict(os.environ))
getenv|import os; print(os.getenv(VARIABLE))
environb|import os; print(os.environb)
posix|import posix; print(posix.environ)
expandvars|import os.path; print(os.path.expandvars("$" + VARIABLE))
sys_modules|import sys; print(sys.modules["os"].environ[VARIABLE])
"""
_NETWORK = """
socket|import socket; socket.create_connection(("127.0.0.1", PORT)).close()
urlopen|import urllib.request; urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", timeout=1)
http|from http.client import HTTPConnection
HTTPConnection("127.0.0.1", PORT, timeout=1).request("GET", "/")
streams|import asyncio; await asyncio.open_connection("127.0.0.1", PORT)
ftp|import ftplib; ftplib.FTP().connect("127.0.0.1", PORT, timeout=1)
smtp|import smtplib; smtplib.SMTP("127.0.0.1", PORT, timeout=1)
"""
_CLOCK = """
time|import time; print(time.time())
time_ns|import time; print(time.time_ns())
now|import datetime; print(datetime.datetime.now())
utcnow|import datetime; print(datetime.datetime.now(datetime.timezone.utc))
today|from datetime import date; print(date.today())
localtime|import time; print(time.localtime())
ctime|import time; print(time.ctime())
strftime|import time; print(time.strftime("%Y-%m-%d"))
file_time|import os; print(os.stat(CANARY).st_mtime)
uuid1|import uuid; print(int((uuid.uuid1().time - 0x01b21dd213814000) / 1e7))
"""
_OBJECTS = """
subclasses|for c in ().__class__.__base__.__subclasses__():
    if c.__name__ == "_wrap_close": print(c.__init__.__globals__["popen"](f"cat {CANARY}").read())
mro|for c in "".__class__.__mro__[-1].__subclasses__():
    if c.__name__ == "_wrap_close": print(c.close.__globals__["popen"](f"cat {CANARY}").read())
type_of|for c in type.__subclasses__(object):
    if c.__name__ == "_wrap_close": print(c.__init__.__globals__["popen"](f"cat {CANARY}").read())
getattr|base = getattr(getattr((), "__cla" + "ss__"), "__ba" + "se__")
for c in getattr(base, "__subcla" + "sses__")():
    if c.__name__ == "_wrap_close": print(c.__init__.__globals__["popen"](f"cat {CANARY}").read())
globals|print(dict(globals()["__builtins__"])["open"](CANARY).read())
function_globals|def f(): pass
print(dict(f.__globals__["__builtins__"])["open"](CANARY).read())
function_builtins|def f(): pass
print(f.__builtins__["open"](CANARY).read())
lambda_globals|print(dict((lambda: 0).__globals__["__builtins__"])["open"](CANARY).read())
method_globals|print(files.read.__func__.__globals__["SECRET"])
class_globals|print(type(files).read.__globals__["SECRET"])
self_of|print(files.read.__self__.read.__func__.__globals__["SECRET"])
code|def f(): return 1
f.__code__ = (lambda: open(CANARY).read()).__code__
print(f())
frame|import sys; print(sys._getframe().f_builtins["open"](CANARY).read())
coroutine_frame|async def f(): pass
c = f()
print(c.cr_frame.f_builtins["open"](CANARY).read())
c.close()
generator_frame|g = (n for n in [1])
print(g.gi_frame.f_builtins["open"](CANARY).read())
inspect|import inspect; print(inspect.currentframe().f_builtins["open"](CANARY).read())
collector|import gc
print([o for o in gc.get_objects() if type(o) is dict and "SECRET" in o][0]["SECRET"])
metaclass|print(type("X", (), {"r": lambda self: open(CANARY).read()})().r())
object_reduce|import copyreg
print(files.__reduce_ex__(2)[0].__globals__["__builtins__"]["open"](CANARY).read())
dataclass|import dataclasses
print(dataclasses.dataclass.__globals__["sys"].modules["os"].popen(f"cat {CANARY}").read())
functools|import functools
print(functools.partial(open, CANARY)().read())
json_module|import json; print(json.codecs.open(CANARY).read())
re_module|import re; print(re.enum.sys.modules["os"].popen(f"cat {CANARY}").read())
random_module|import random; print(random._os.popen(f"cat {CANARY}").read())
typing_module|import typing; print(typing.sys.modules["os"].popen(f"cat {CANARY}").read())
collections|import collections
print(collections._sys.modules["os"].popen(f"cat {CANARY}").read())
asyncio_module|import asyncio; print(asyncio.sys.modules["os"].popen(f"cat {CANARY}").read())
main|import __main__; print(__main__.SECRET)
"""
_FORMATS = """
format_index|print("{0.read.__func__.__globals__[SECRET]}".format(files))
format_name|print("{f.read.__func__.__globals__[SECRET]}".format(f=files))
format_map|print("{f.read.__func__.__globals__[SECRET]}".format_map({"f": files}))
f_string|print(f"{files.read.__func__.__globals__['SECRET']}")
formatter|import string; print(string.Formatter().format("{0.read.__globals__[SECRET]}", files))
template|import string
print(string.Template("${x}").substitute({"x": files.read.__globals__["SECRET"]}))
format_of_a_type|print("{0.read.__globals__[SECRET]}".format(type(files)))
nested_format|print("{0:{1.read.__func__.__globals__[SECRET]}}".format("x", files))
"""
_EXCEPTIONS = """
traceback|try: 1 / 0
except Exception as e: print(e.__traceback__.tb_frame.f_builtins["open"](CANARY).read())
exc_info|import sys
try: 1 / 0
except Exception: print(sys.exc_info()[2].tb_frame.f_builtins["open"](CANARY).read())
of_a_tool|try: await files.delete(path="x")
except Exception as e: print(e.__traceback__.tb_next.tb_frame.f_globals["SECRET"])
context|try: await files.delete(path="x")
except Exception as e: print(e.__context__.__traceback__.tb_frame.f_globals["SECRET"])
name_error|try: files.none
except AttributeError as e: print(e.obj.read.__func__.__globals__["SECRET"])
stop_iteration|try: await files.delete(path="x")
except BaseException as e: print(type(e).__init__.__globals__["SECRET"])
warnings|import warnings; print(warnings.sys.modules["__main__"].SECRET)
traceback_module|import traceback
try: await files.delete(path="x")
except Exception as e: print([f for f, _ in traceback.walk_tb(e.__traceback__)][-1].f_globals)
"""


def _table(*texts: str) -> dict[str, str]:
    """By name: a line that begins with ``name|`` begins another one."""
    found: dict[str, str] = {}
    name = ""
    for line in "".join(texts).split("\n"):
        start, bar, rest = line.partition("|")
        if bar and start.isidentifier():
            name = start
            assert name not in found, name
            found[name] = rest
        elif line:
            found[name] += f"\n{line}"
    return found


OUTSIDE = {
    what: _table(text)
    for what, text in {
        "files": _FILES,
        "processes": _PROCESSES,
        "environment": _ENVIRONMENT,
        "network": _NETWORK,
        "clock": _CLOCK,
        "objects": _OBJECTS,
        "formats": _FORMATS,
        "exceptions": _EXCEPTIONS,
    }.items()
}
"""What gets out of an ordinary Python, or would with its objects."""

ALONE = _table("""
exit|import sys; sys.exit(7)
exit_builtin|exit(7)
os_exit|import os; os._exit(7)
raise_exit|raise SystemExit(7)
raise_interrupt|raise KeyboardInterrupt
raise_generator_exit|raise GeneratorExit
kill_parent|import os, signal; os.kill(os.getppid(), signal.SIGTERM)
signal|import signal; signal.raise_signal(signal.SIGKILL)
input|print(input())
stdin|import sys; print(sys.stdin.read())
breakpoint|breakpoint()
help|help()
argv|import sys; print(sys.argv, sys.path, sys.executable)
locals_crash|class A: pass
a = A()
print(locals())
recursion_of_reprs|a = []; a.append(a); print(a)
surrogate|print("\\ud800")
null|print("\\x00" * 10)
closed_output|import sys; sys.stdout.close(); print(1)
other_output|import sys; sys.stdout = None; print(1)
standard_error|import sys; sys.stderr.write("x")
deep_json|import json; print(json.loads("[" * 100000))
packages|import pydantic_monty
host_package|import mcp_client
host_session|print(session)
host_target|print(target, host, toolset, _target)
script_name|print(__file__, __name__)
""")
"""What has no way out to show, and still must end here."""

BOUNDED = _table("""
endless|while True: pass
endless_caught|while True:
    try:
        while True: pass
    except BaseException: pass
endless_finally|def f():
    try:
        while True: pass
    finally:
        f()
f()
memory|x = []
while True: x.append("x" * 1000000)
memory_caught|x = []
while True:
    try: x.append(bytearray(10 ** 6))
    except BaseException: pass
one_text|x = "x" * 10 ** 10
one_list|x = [0] * 10 ** 10
doubled|x = "x"
while True: x += x
bytes|x = b"x" * 10 ** 10
power|x = 10 ** 10 ** 8
power_mod|x = pow(3, 10 ** 7)
shift|x = 1 << 10 ** 11
factorial|import math; x = math.factorial(10 ** 7)
digits|x = str(10 ** 10 ** 6)
big_product|x = 1
while True: x = (x + 3) ** 3
padding|x = "a".ljust(10 ** 11)
percent|x = "%100000000000d" % 1
format_width|x = f"{1:100000000000}"
joined|x = ",".join(["x" * 10 ** 6] * 10 ** 6)
replaced|x = ("a" * 10 ** 6).replace("a", "b" * 10 ** 6)
range_list|x = list(range(10 ** 11))
product|import itertools; x = list(itertools.product(range(1000), repeat=5))
regex|import re; re.match(r"(a+)+$", "a" * 40 + "b")
regex_alternation|import re; re.match(r"(a|a)*$", "a" * 40 + "b")
regex_nested|import re; re.match(r"((a*)*)*$", "a" * 40 + "b")
recursion|def f(): f()
f()
recursion_caught|def f():
    try: f()
    except BaseException: f()
f()
recursion_of_data|x = []
for _ in range(10 ** 6): x = [x]
print(x)
output|while True: print("x" * 1000)
output_caught|while True:
    try: print("x" * 1000)
    except BaseException: pass
output_in_one|print("x" * 10 ** 7)
last_expression|"x" * 10 ** 6
shared_value|x = ["x" * 1000]
for _ in range(30): x = [x, x]
x
shared_arguments|x = ["x" * 1000]
for _ in range(30): x = [x, x]
await files.read(path=x)
sleep|import asyncio
while True: await asyncio.sleep(1000)
endless_sort|sorted(range(10 ** 8), key=lambda n: -n)
comparison|x = []
y = []
for _ in range(10 ** 6): x, y = [x], [y]
x == y
set_of_collisions|x = {n * (2 ** 61 - 1) for n in range(10 ** 6)}
while True: x.add(1)
calls|while True: await files.read(path="x")
calls_caught|while True:
    try: await files.read(path="x")
    except BaseException: pass
calls_side_by_side|import asyncio
await asyncio.gather(*[files.read(path=str(n)) for n in range(10 ** 5)])
""")
"""What takes too much of something."""

CALLS = _table("""
other_tool|await files.delete(path="x")
by_name|await getattr(files, "dele" + "te")(path="x")
assigned|files.read = files.delete
await files.read(path="x")
replaced|files = {"read": 1}
files["delete"](path="x")
named_like_another|f = files.delete
f.__name__ = "read"
await f(path="x")
set_name|setattr(files.delete, "__name__", "read"); await files.delete(path="x")
bound_twice|import functools; await functools.partial(files.delete, path="x")()
wrapper_class|class Own:
    def __getattr__(self, name): return files.delete
await Own().read(path="x")
private|await files._call_as_code("delete", {"path": "x"})
call_tool|await files.call_tool("delete", {"path": "x"})
call_tool_plain|await call_tool("files__delete", {"path": "x"})
session_call|await session.call_tool("delete", {"path": "x"})
dunder_call|await files.__call__("delete", path="x")
qualified|await files__delete(path="x")
dotted|await getattr(files, "read.delete")(path="x")
empty_name|await getattr(files, "")(path="x")
name_with_line|await getattr(files, "read\\ndelete")(path="x")
unknown_server|await other.delete(path="x")
options_context|await files.delete(path="x", context="admin")
options_approval|await files.delete(path="x", approval="allow_all", trusted=True)
options_script|await files.delete(path="x", script=None, origin="host")
options_meta|await files.delete(path="x", _meta={"a": 1}, meta={"b": 2})
options_key|await files.delete(path="x", idempotency_key="k", retry=3, timeout=0)
positional|await files.delete("x")
keyword_bomb|await files.delete(**{"path": "x", "__class__": "y", "self": "z"})
subclassed|class S(str):
    def __eq__(self, other): return True
    def __hash__(self): return hash("read")
await getattr(files, S("delete"))(path="x")
text_class|class S(str):
    def __str__(self): return "read"
await files.delete(path=S("x"))
awaited_twice|c = files.delete(path="x")
try: await c
except Exception: pass
await c
caught|for _ in range(20):
    try: await files.delete(path="x")
    except CallDenied: pass
caught_all|for _ in range(20):
    try: await files.delete(path="x")
    except BaseException: pass
exception_replaced|CallDenied = ValueError
await files.delete(path="x")
print_replaced|print = files.delete
await print(path="x")
side_by_side|import asyncio
async def caught(n):
    try: await files.delete(path=n)
    except CallDenied: pass
await asyncio.gather(*[caught(n) for n in range(20)])
mixed|import asyncio
await asyncio.gather(files.read(path="a"), files.delete(path="b"))
left_alone|files.delete(path="x")
as_a_default|async def f(x=files.delete): return await x(path="x")
await f()
evaluated|await eval("files.delete(path='x')")
executed|exec("files.delete(path='x')")
text_of_a_result|await eval(await files.read(path="code"))
text_of_an_error|try: await files.delete(path="x")
except Exception as e: await eval(str(e).split(":")[0] or "files.delete(path='x')")
class_arguments|class A: pass
await files.delete(path=A())
function_arguments|await files.delete(path=files.read)
cyclic|x = []; x.append(x)
await files.delete(path=x)
not_a_number|await files.delete(path=float("nan"))
huge_number|await files.delete(path=10 ** 5000)
bytes_argument|await files.delete(path=b"x")
surrogate_argument|await files.delete(path="\\ud800")
deep_argument|x = []
for _ in range(1000): x = [x]
await files.delete(path=x)
set_argument|await files.delete(path={1, 2})
key_argument|await files.delete(path={1: 2, None: 3, (1, 2): 4})
""")
"""What goes for the tool that is not allowed, and must not reach the server by any way."""
ASKED = dict.fromkeys(
    [
        *("other_tool", "by_name", "bound_twice", "options_context", "options_script"),
        *("options_key", "keyword_bomb", "mixed", "as_a_default", "exception_replaced"),
        "print_replaced",
    ],
    1,
) | dict.fromkeys(["caught", "caught_all", "side_by_side"], 20)
"""How often the approver is asked about it, where the code calls it as any code would."""
