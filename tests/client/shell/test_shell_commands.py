"""What the commands print, and how they end."""

import json
import sys
from pathlib import Path

import pytest

from support.servers import Server
from tests.client.shell.cli_runner import Cli


def plant(cli: Cli) -> None:
    """A small tree."""
    for path, data in (
        ("/app", ""),
        ("/app/db", "host=a\nport=5"),
        ("/app/log", "debug"),
        ("/other", "x" * 2000),
    ):
        cli.ok("create", path, data)


# --- Single nodes.


def test_a_node_is_created_read_changed_and_deleted(cli: Cli) -> None:
    assert cli.ok("create", "-p", "/a/b/c", "data") == "/a/b/c\n"
    assert cli.ok("get", "/a/b/c") == "data"
    assert cli.ok("set", "/a/b/c", "new", "-v", "0") == ""
    assert cli.json("get", "/a/b/c") == {"path": "/a/b/c", "data": "new"}
    assert cli.json("stat", "/a/b/c")["version"] == 1
    assert "version = 1\n" in cli.ok("stat", "/a/b/c")
    assert cli.ok("ls", "/a") == "b\n"
    assert cli.ok("rm", "/a/b/c") == ""
    assert cli.ok("exists", "/a/b") == ""
    assert cli.ok("count") == "2\n"


def test_data_goes_through_byte_for_byte(cli: Cli) -> None:
    cli.ok("create", "/a", "-", stdin=b"\x00\xff\n")
    assert cli.run("get", "/a").stdout_bytes == b"\x00\xff\n"
    assert cli.json("get", "/a") == {"path": "/a", "base64": "AP8K"}
    cli.ok("set", "/a", "-", stdin="text")
    assert cli.ok("get", "/a") == "text"


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (["get", "/no"], 1, "/no: no such node"),
        (["stat", "/no"], 1, "/no: no such node"),
        (["rm", "/no"], 1, "/no: no such node"),
        (["ls", "/no"], 1, "/no: no such node"),
        (["exists", "/no"], 1, ""),
        (["create", "/app"], 1, "/app: the node exists already"),
        (["create", "/x/y"], 1, "/x/y: no such node"),
        (["set", "/app", "x", "-v", "7"], 1, "/app: the node has another version"),
        (["rm", "/app"], 1, "/app: the node has children; rm -r deletes them too"),
        (["reconfig", "--remove", "3"], 1, "reconfiguration is switched off; see reconfigEnabled"),
        (["setacl", "/app", "nonsense:x:r"], 1, "/app: the server does not accept this ACL"),
        (
            ["setacl", "/app", "world"],
            2,
            "'world' is no ACL: expected scheme:id:perms, e.g. world:anyone:cdrwa",
        ),
        (["ls", "app"], 2, "Path must start with / character"),
        (["create", "-e", "-c", "/x"], 2, "there is no such kind of node"),
        (["grep", "(", "/"], 2, "'(' is no regular expression"),
        (["find", "/", "--name", "zzz"], 1, ""),
        (["grep", "zzz"], 1, ""),
        (["cp", "nosuchfile", "/x"], 1, "nosuchfile: no such file"),
        (["lock", "/l", "--", "nosuchprogram"], 127, "cannot run nosuchprogram: No such file or directory"),
    ],
)
def test_failures(cli: Cli, words: list[str], exit_code: int, said: str) -> None:
    plant(cli)
    assert cli.fails(exit_code, *words).startswith(said)
    if not said:
        assert cli.fails(exit_code, *words) == ""


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (["bogus"], 127, "there is no command bogus"),
        (["ls", "--bogus"], 2, "No such option"),
        (["get"], 2, "Missing argument"),
        (["reconfig"], 2, "say what to change"),
        (["reconfig", "--remove", "1", "--members", "x"], 2, "choose --members"),
        (["reconfig", "--remove", "1", "-v", "zz"], 2, "'zz' is no version"),
        (["--auth", "digest", "ls"], 2, "expected SCHEME:CREDENTIALS"),
    ],
)
def test_wrong_use(cli: Cli, words: list[str], exit_code: int, said: str) -> None:
    assert said in cli.fails(exit_code, *words)


def test_nobody_serving() -> None:
    said = Cli("127.0.0.1:1").fails(3, "--wait", "0.1", "ls", "/")
    assert said == "no server of 127.0.0.1:1 answered within 0.1 s: 127.0.0.1:1: Connection refused"
    assert "the port 'x' is no number" in Cli("a:x").fails(2, "ls")


def test_kinds_of_nodes(cli: Cli) -> None:
    assert cli.ok("create", "-s", "/s-") == "/s-0000000000\n"
    assert cli.ok("create", "-c", "/c") == "/c\n"
    assert cli.ok("create", "-t", "60000", "/t") == "/t\n"
    assert cli.ok("create", "-e", "/e") == "/e\n"
    assert cli.fails(1, "exists", "/e") == "", "it went with its session"
    made = cli.json("create", "/j", "x")
    assert (made["path"], made["stat"]["data_length"]) == ("/j", 1)


def test_lists(cli: Cli) -> None:
    plant(cli)
    assert cli.ok("ls") == "app\nother\n"
    assert cli.ok("ls", "-R", "/app") == "/app\n/app/db\n/app/log\n"
    assert cli.json("ls") == ["app", "other"]
    assert cli.json("ls", "-R", "/app") == ["/app", "/app/db", "/app/log"]
    assert [(row["name"], row["data_length"]) for row in cli.json("ls", "-l", "/app")] == [
        ("db", 13),
        ("log", 5),
    ]
    assert [line.split()[-1] for line in cli.ok("ls", "-l", "/app").splitlines()] == ["db", "log"]


def test_deleting_a_subtree(cli: Cli) -> None:
    plant(cli)
    assert cli.ok("rm", "-r", "/app") == ""
    assert cli.ok("ls") == "other\n"
    cli.fails(1, "rm", "-r", "/app")
    assert cli.ok("rm", "-rf", "/app") == ""
    cli.ok("rm", "-r", "/")
    assert cli.ok("ls") == ""


def test_the_names_of_zkcli(cli: Cli) -> None:
    plant(cli)
    assert cli.ok("deleteall", "/app") == ""
    assert cli.ok("getAllChildrenNumber", "/") == "1\n"
    assert cli.ok("getAcl", "/other") == "world:anyone:cdrwa\n"
    assert cli.ok("delete", "/other") == ""


# --- ACLs and sessions.


def test_acls(cli: Cli) -> None:
    plant(cli)
    with_auth = ("--auth", "digest:u:p")
    assert cli.ok(*with_auth, "setacl", "-R", "/app", "auth::cdrwa") == ""
    assert cli.json(*with_auth, "getacl", "/app/db") == ["digest:u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=:cdrwa"]
    assert cli.fails(1, "get", "/app/db") == "/app/db: not allowed by the ACL; see addauth"
    assert cli.ok(*with_auth, "get", "/app/db").startswith("host")
    assert {"scheme": "digest", "user": "u"} in cli.json(*with_auth, "whoami")
    assert "ip: 127.0.0.1\n" in cli.ok("whoami")
    assert cli.fails(1, "--auth", "bogus:x", "ls").endswith("the server refused the credentials")


def test_what_may_not_be_read_is_named(cli: Cli) -> None:
    plant(cli)
    cli.ok("--auth", "digest:u:p", "setacl", "/app", "auth::cdrwa")
    result = cli.run("find", "/")
    assert (result.exit_code, result.stdout) == (1, "/\n/other\n")
    assert result.stderr == "not allowed by the ACL: /app\n"


def test_scripts_stop_at_the_first_error(cli: Cli) -> None:
    result = cli.run(stdin="create /a 'two words'\n\n# a comment\nget /a\nget /no\ncreate /b\n")
    assert result.exit_code == 1
    assert result.stdout == "/a\ntwo words"
    assert result.stderr == "/no: no such node\nline 5: get /no\n"
    assert cli.ok("ls") == "a\n"


def test_scripts_keep_one_session(cli: Cli) -> None:
    script = "create -e /e\nephemerals\nls --json\nls\naddauth digest u:p\nwhoami\n"
    script += "sync\nconfig\nexit\ncreate /never\n"
    printed = cli.ok(stdin=script).splitlines()
    assert printed[:4] == ["/e", "/e", '["e"]', "e"], "--json holds for its line alone"
    assert "digest: u" in printed
    assert cli.ok("ls") == ""


@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        ("bogus", 127, "there is no command bogus"),
        ("ls --bogus", 2, "No such option"),
        ("get '", 2, "No closing"),
    ],
)
def test_mistakes_in_scripts(cli: Cli, line: str, exit_code: int, said: str) -> None:
    assert said in cli.fails(exit_code, stdin=f"{line}\n")


def test_help_lists_the_commands(cli: Cli) -> None:
    assert "mirror" in cli.ok("--help")
    assert "mirror" in cli.ok(stdin="help\n")
    assert "--dry-run" in cli.ok(stdin="mirror --help\n")


def test_going_on_with_other_servers(cli: Cli, shell_server: Server) -> None:
    printed = cli.ok(stdin=f"ls\nconnect {shell_server.host_port}\nls\n").splitlines()
    assert "zookeeper" in printed


def test_quotas(cli: Cli) -> None:
    root, _, name = cli.hosts.partition("/")
    plant(cli)
    shell, path = Cli(root), f"/{name}/app"
    assert shell.fails(1, "listquota", path) == f"{path}: there is no quota"
    assert shell.ok("setquota", path, "--count", "100", "--hard-bytes", "9000") == ""
    told = shell.json("listquota", path)
    assert told == {"limits": {"count": 100, "hard_bytes": 9000}, "use": {"count": 3, "bytes": 18}}
    assert shell.ok("listquota", path).splitlines()[-2:] == ["count = 3", "bytes = 18"]
    assert "less than the existing" in shell.run("setquota", path, "--count", "1").stderr
    assert "which has a quota" in shell.fails(1, "setquota", f"{path}/db", "--count", "5")
    assert shell.ok("delquota", path, "--count") == ""
    assert shell.json("listquota", path)["limits"] == {"hard_bytes": 9000}
    assert shell.ok("delquota", path) == ""
    assert shell.fails(1, "delquota", path) == f"{path}: there is no quota"
    assert "name a limit" in shell.fails(2, "setquota", path)
    assert "leave the chroot out" in cli.fails(2, "listquota", "/app")
    assert "cannot have one" in shell.fails(1, "setquota", "/zookeeper/quota", "--count", "5")


# --- Searches.


def test_searches(cli: Cli) -> None:
    plant(cli)
    assert cli.ok("tree").splitlines() == ["/", "├── app", "│   ├── db", "│   └── log", "└── other"]
    assert cli.ok("tree", "-L", "1").splitlines() == ["/", "├── app", "└── other"]
    assert cli.json("tree", "/app") == {"/app": {"db": {}, "log": {}}}
    assert cli.ok("find", "/", "--name", "*o*") == "/app/log\n/other\n"
    assert cli.ok("find", "--regex", "p/d") == "/app/db\n"
    assert cli.json("find", "--min-size", "1000") == ["/other"]
    assert cli.ok("grep", "PORT=", "-i") == "/app/db:port=5\n"
    assert cli.ok("grep", "-l", "o", "/app") == "/app/db\n"
    assert json.loads(cli.ok("grep", "--json", "host", "/")) == {"path": "/app/db", "lines": ["host=a"]}
    assert [line.split()[-1] for line in cli.ok("du").splitlines()] == ["/", "/other", "/app"]
    assert cli.json("du", "/app", "-d", "0") == [{"path": "/app", "nodes": 3, "bytes": 18}]
    assert cli.ok("du", "-b", "/other").split() == ["2000", "1", "/other"]


def test_a_tree_too_deep_for_json_is_refused_with_a_way_out(cli: Cli) -> None:
    cli.ok("create", "-p", "/deep" + "/d" * 501)

    assert "limit it with --depth 500" in cli.fails(1, "tree", "/deep", "--json")
    assert cli.json("tree", "/deep", "-L", "500")["/deep"]


def test_ephemerals_are_found_by_their_kind(cli: Cli) -> None:
    printed = cli.ok(
        stdin="create /p\ncreate -e /e\nfind --ephemeral\nfind / --persistent --empty\n"
    ).splitlines()
    assert printed[2:] == ["/e", "/p"]


# --- Copies.


def test_copies_and_differences(cli: Cli) -> None:
    plant(cli)
    cli.ok("cp", "-r", "/app", "/copy/of/app")
    assert cli.ok("diff", "/app", "/copy/of/app") == ""
    cli.ok("set", "/copy/of/app/db", "changed")
    cli.ok("create", "/copy/of/app/more")
    cli.ok("rm", "/copy/of/app/log")
    result = cli.run("diff", "/app", "/copy/of/app")
    assert (result.exit_code, result.stdout) == (1, "~ /db\n+ /log\n- /more\n")
    planned = cli.ok("mirror", "--dry-run", "/app", "/copy/of/app")
    assert planned == "~ /db\n+ /log\n- /more\n"
    assert cli.run("diff", "/app", "/copy/of/app").exit_code == 1, "nothing was done yet"
    assert cli.ok("mirror", "/app", "/copy/of/app") == planned
    assert cli.ok("diff", "/app", "/copy/of/app") == ""
    lines = [json.loads(line) for line in cli.run("diff", "--json", "/app", "/new").stdout.splitlines()]
    assert lines[0] == {"change": "create", "path": "/", "data": ""}


def test_a_copy_replaces_nothing_unless_told(cli: Cli) -> None:
    plant(cli)
    cli.ok("create", "/copy", "precious")
    assert cli.fails(1, "cp", "/other", "/copy") == "/copy: the node exists already"
    assert cli.ok("get", "/copy") == "precious"
    cli.ok("cp", "-f", "/app/log", "/copy")
    assert cli.ok("get", "/copy") == "debug"
    cli.ok("cp", "/app", "/shallow")
    assert cli.ok("ls", "/shallow") == ""


def test_files_both_ways(cli: Cli, tmp_path: Path) -> None:
    plant(cli)
    file = f"file:{tmp_path}/app.json"
    cli.ok("cp", "-r", "/app", file)
    assert "is there already" in cli.fails(1, "cp", "-r", "/app", file)
    assert cli.ok("diff", file, "/app") == ""
    assert cli.fails(2, "cp", file, "/x").endswith("holds 3 nodes; use cp -r")
    cli.ok("cp", "-r", file, "/back")
    assert cli.ok("diff", "/app", "/back") == ""
    cli.ok("set", "/app/log", "info")
    assert cli.ok("mirror", "/app", file) == "~ /log\n"
    assert cli.ok("diff", file, "/app") == ""
    assert json.loads(cli.ok("cp", "-r", "/app", "-"))["nodes"]["/log"] == {"data": "info"}
    (tmp_path / "app.json").write_text("nonsense")
    assert "no JSON" in cli.fails(1, "diff", file, "/app")


def test_between_ensembles(cli: Cli) -> None:
    plant(cli)
    cli.ok("cp", "-r", "/app", f"zk://{cli.hosts}/there")
    hosts, _, chroot = cli.hosts.partition("/")
    assert Cli(hosts).ok("diff", f"/{chroot}/app", f"zk://{hosts}/{chroot}/there") == ""
    cli.ok("create", "/there/only")
    assert cli.ok("mirror", "--keep", "/app", f"zk://{hosts}/{chroot}/there") == ""


def test_acls_are_copied_on_request(cli: Cli) -> None:
    plant(cli)
    cli.ok("setacl", "/app/db", "world:anyone:r")
    cli.ok("cp", "-r", "--acl", "/app", "/with")
    cli.ok("cp", "-r", "/app", "/without")
    assert cli.json("getacl", "/with/db") == ["world:anyone:r"]
    assert cli.json("getacl", "/without/db") == ["world:anyone:cdrwa"]
    assert cli.ok("diff", "/app", "/without") == ""
    assert cli.run("diff", "--acl", "/app", "/without").stdout == "~ /db\n"


def test_sequence_counters_stay_behind_with_a_word(cli: Cli) -> None:
    cli.ok("create", "/q")
    cli.ok("create", "-s", "/q/n-")
    result = cli.run("cp", "-r", "/q", "/r")
    assert result.exit_code == 0
    assert "sequence counters are not copied" in result.stderr


def test_one_node_one_file(cli: Cli, tmp_path: Path) -> None:
    plant(cli)
    file = str(tmp_path / "db")
    cli.ok("export", "/app/db", file)
    assert Path(file).read_bytes() == b"host=a\nport=5"
    Path(file).write_bytes(b"\xff")
    cli.ok("import", file, "/app/db", "-v", "0")
    cli.fails(1, "import", file, "/app/db", "-v", "0")
    cli.fails(1, "import", file, "/app/new")
    cli.ok("import", "-c", file, "/app/new")
    assert cli.run("get", "/app/new").stdout_bytes == b"\xff"
    assert cli.ok("export", "/app/log", "-") == "debug"


# --- Editing and locking.


def test_editing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(cli)
    monkeypatch.setenv("VISUAL", "sed -i s/debug/trace/")
    cli.ok("edit", "/app/log")
    assert cli.ok("get", "/app/log") == "trace"
    assert cli.run("edit", "/app/log").stderr == "/app/log: unchanged\n"
    monkeypatch.setenv("VISUAL", "false")
    assert cli.fails(1, "edit", "/app/log") == "false ended with exit code 1: nothing was written"
    monkeypatch.setenv("VISUAL", "/no/such/editor")
    assert "cannot run /no/such/editor" in cli.fails(2, "edit", "/app/log")


def test_an_edit_is_not_written_over_another_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(cli)
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys; from kazoo.client import KazooClient\n"
        "other = KazooClient(sys.argv[1]); other.start(); other.set('/app/log', b'theirs'); other.stop()\n"
        "open(sys.argv[2], 'w').write('mine')\n"
    )
    monkeypatch.setenv("VISUAL", f"{sys.executable} {editor} {cli.hosts}")
    said = cli.fails(1, "edit", "/app/log")
    assert "somebody changed it meanwhile; your text is in " in said
    assert Path(said.rpartition(" ")[2]).read_text() == "mine"
    assert cli.ok("get", "/app/log") == "theirs"


def test_a_lock_passes_the_exit_code_on(cli: Cli) -> None:
    assert cli.run("lock", "/l", "--", "sh", "-c", "exit 7").exit_code == 7
    assert cli.run("lock", "/l", "--", "sh", "-c", "kill -9 $$").exit_code == 137
    assert cli.ok("ls", "/l") == "", "nothing is left behind"


def test_an_edit_of_a_node_that_went_away_is_kept(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(cli)
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys; from kazoo.client import KazooClient\n"
        "other = KazooClient(sys.argv[1]); other.start(); other.delete('/app/log'); other.stop()\n"
        "open(sys.argv[2], 'w').write('mine')\n"
    )
    monkeypatch.setenv("VISUAL", f"{sys.executable} {editor} {cli.hosts}")
    said = cli.fails(1, "edit", "/app/log")
    assert said.startswith("/app/log: no such node; your text is in ")
    assert Path(said.rpartition(" ")[2]).read_text() == "mine"


def test_a_mirror_and_its_source_do_not_overlap(cli: Cli) -> None:
    plant(cli)
    before = cli.ok("ls", "-R", "/")
    hosts, slash, chroot = cli.hosts.partition("/")
    for source, target in [("/app/log", "/app"), ("/app", "/app/log"), ("/", "/x"), ("/app", "/app")]:
        assert "one is a part of the other" in cli.fails(2, "mirror", source, target)
    assert "one is a part" in cli.fails(2, "mirror", f"zk://{hosts}{slash}{chroot}/app/log", "/app")
    assert cli.ok("ls", "-R", "/") == before
    assert cli.run("mirror", "/app", "/app2").exit_code == 0, "only the beginning of the name is the same"


def test_a_mirror_that_could_not_see_all_of_its_target_says_so(cli: Cli) -> None:
    cli.ok("create", "/from")
    cli.ok("create", "/from/a", "new")
    cli.ok("create", "/to")
    cli.ok("create", "/to/a", "old", "--acl", "world:anyone:cda")
    result = cli.run("mirror", "/from", "/to")
    assert result.exit_code == 1
    assert "not allowed by the ACL" in result.stderr
