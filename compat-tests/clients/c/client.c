/* Debian's C client: one feature after the other; see ../programs.py for what is printed. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define WAIT_SECONDS 30

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int state = 0;
static int last_type = 0;
static char last_path[256];
static char why[512];
static const char *top;

static void on_event(zhandle_t *zk, int type, int new_state, const char *path, void *context)
{
    (void)zk;
    (void)context;
    pthread_mutex_lock(&lock);
    if (type == ZOO_SESSION_EVENT) {
        state = new_state;
    } else {
        last_type = type;
        snprintf(last_path, sizeof last_path, "%s", path);
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int wait_for(int *value, int wanted)
{
    struct timespec until;
    int result = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    pthread_mutex_lock(&lock);
    while (*value != wanted && result == 0)
        result = pthread_cond_timedwait(&changed, &lock, &until);
    pthread_mutex_unlock(&lock);
    return *value == wanted;
}

static int expect(const char *what, int got, int wanted)
{
    if (got != wanted)
        snprintf(why, sizeof why, "%s: %d (%s), not %d", what, got, zerror(got), wanted);
    return got == wanted;
}

static const char *below(const char *name)
{
    static char paths[8][512];
    static int at = 0;
    at = (at + 1) % 8;
    snprintf(paths[at], sizeof paths[at], "%s/%s", top, name);
    return paths[at];
}

static int create(zhandle_t *zk, const char *path, const char *data, int flags, char *made, int length)
{
    return zoo_create(zk, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, flags, made, length);
}

static int session(zhandle_t *zk)
{
    return wait_for(&state, ZOO_CONNECTED_STATE) && zoo_client_id(zk)->client_id != 0
           && expect("create", create(zk, top, "", 0, NULL, 0), ZOK);
}

static int nodes(zhandle_t *zk)
{
    char data[64];
    int length = sizeof data;
    struct Stat stat;
    struct String_vector names;
    if (!expect("create", create(zk, below("a"), "one", 0, NULL, 0), ZOK)
        || !expect("create again", create(zk, below("a"), "", 0, NULL, 0), ZNODEEXISTS)
        || !expect("get", zoo_get(zk, below("a"), 0, data, &length, &stat), ZOK)
        || !expect("length", length, 3) || !expect("data", memcmp(data, "one", 3), 0)
        || !expect("children", zoo_get_children(zk, top, 0, &names), ZOK) || !expect("count", names.count, 1))
        return 0;
    deallocate_String_vector(&names);
    return expect("exists", zoo_exists(zk, below("nobody"), 0, &stat), ZNONODE)
           && expect("delete", zoo_delete(zk, below("a"), -1), ZOK)
           && expect("delete again", zoo_delete(zk, below("a"), -1), ZNONODE);
}

static int versions(zhandle_t *zk)
{
    struct Stat stat;
    return expect("create", create(zk, below("v"), "0", 0, NULL, 0), ZOK)
           && expect("set", zoo_set2(zk, below("v"), "1", 1, 0, &stat), ZOK)
           && expect("version", stat.version, 1)
           && expect("set too late", zoo_set(zk, below("v"), "2", 1, 0), ZBADVERSION)
           && expect("delete too late", zoo_delete(zk, below("v"), 0), ZBADVERSION);
}

static int sequence(zhandle_t *zk)
{
    char made[512];
    for (int number = 0; number < 3; number++) {
        char suffix[16];
        if (!expect("parent", create(zk, below("s"), "", 0, NULL, 0), number ? ZNODEEXISTS : ZOK)
            || !expect("create", create(zk, below("s/n-"), "", ZOO_SEQUENCE, made, sizeof made), ZOK))
            return 0;
        snprintf(suffix, sizeof suffix, "n-%010d", number);
        if (!expect(made, strcmp(made + strlen(made) - strlen(suffix), suffix), 0))
            return 0;
    }
    return 1;
}

static int ephemerals(zhandle_t *zk)
{
    struct Stat stat;
    return expect("create", create(zk, below("e"), "", ZOO_EPHEMERAL, NULL, 0), ZOK)
           && expect("exists", zoo_exists(zk, below("e"), 0, &stat), ZOK)
           && expect("owner", stat.ephemeralOwner == zoo_client_id(zk)->client_id, 1)
           && expect("child", create(zk, below("e/x"), "", 0, NULL, 0), ZNOCHILDRENFOREPHEMERALS);
}

static int watches(zhandle_t *zk)
{
    struct Stat stat;
    if (!expect("exists", zoo_exists(zk, below("w"), 1, &stat), ZNONODE)
        || !expect("create", create(zk, below("w"), "", 0, NULL, 0), ZOK)
        || !expect("created", wait_for(&last_type, ZOO_CREATED_EVENT), 1)
        || !expect("path", strcmp(last_path, below("w")), 0)
        || !expect("exists", zoo_exists(zk, below("w"), 1, &stat), ZOK)
        || !expect("set", zoo_set(zk, below("w"), "1", 1, -1), ZOK)
        || !expect("changed", wait_for(&last_type, ZOO_CHANGED_EVENT), 1))
        return 0;
    return expect("exists", zoo_exists(zk, below("w"), 1, &stat), ZOK)
           && expect("delete", zoo_delete(zk, below("w"), -1), ZOK)
           && expect("deleted", wait_for(&last_type, ZOO_DELETED_EVENT), 1);
}

static int multi(zhandle_t *zk)
{
    zoo_op_t ops[3];
    zoo_op_result_t results[3];
    char made[256];
    zoo_create_op_init(&ops[0], below("m"), "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, made, sizeof made);
    zoo_set_op_init(&ops[1], below("m"), "1", 1, 0, NULL);
    zoo_check_op_init(&ops[2], below("m"), 1);
    if (!expect("multi", zoo_multi(zk, 3, ops, results), ZOK))
        return 0;
    zoo_delete_op_init(&ops[0], below("m"), -1);
    zoo_check_op_init(&ops[1], below("nobody"), 0);
    struct Stat stat;
    return expect("multi that fails", zoo_multi(zk, 2, ops, results), ZNONODE)
           && expect("its first part", results[0].err, ZOK)
           && expect("nothing was done", zoo_exists(zk, below("m"), 0, &stat), ZOK);
}

static void on_auth(int result, const void *data)
{
    (void)data;
    pthread_mutex_lock(&lock);
    last_type = 1000 + result;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int acls(zhandle_t *zk)
{
    struct Stat stat;
    char data[8];
    int length = sizeof data;
    struct ACL read_only[] = {{ZOO_PERM_READ, {"world", "anyone"}}};
    struct ACL_vector acl = {1, read_only};
    if (!expect("auth", zoo_add_auth(zk, "digest", "ann:secret", 10, on_auth, NULL), ZOK)
        || !expect("auth is done", wait_for(&last_type, 1000), 1)
        || !expect("create", zoo_create(zk, below("mine"), "", 0, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0), ZOK)
        || !expect("read", zoo_get(zk, below("mine"), 0, data, &length, &stat), ZOK)
        || !expect("create", zoo_create(zk, below("closed"), "", 0, &acl, 0, NULL, 0), ZOK))
        return 0;
    return expect("write", zoo_set(zk, below("closed"), "1", 1, -1), ZNOAUTH);
}

static int reconnect(zhandle_t *zk)
{
    int64_t id = zoo_client_id(zk)->client_id;
    struct Stat stat;
    int result = ZCONNECTIONLOSS;
    for (int tries = 0; tries < WAIT_SECONDS * 10 && result != ZOK; tries++) {
        result = zoo_exists(zk, below("e"), 0, &stat);
        if (result != ZOK)
            usleep(100000);
    }
    return expect("the ephemeral node", result, ZOK)
           && expect("the same session", zoo_client_id(zk)->client_id == id, 1);
}

static void try_feature(const char *name, int (*feature)(zhandle_t *), zhandle_t *zk)
{
    why[0] = 0;
    if (feature(zk))
        printf("ok %s\n", name);
    else
        printf("failed %s: %s\n", name, why[0] ? why : "no answer in time");
    fflush(stdout);
}

int main(int count, char **arguments)
{
    char answer[16];
    if (count != 3)
        return 2;
    top = arguments[2];
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zhandle_t *zk = zookeeper_init(arguments[1], on_event, 10000, NULL, NULL, 0);
    if (zk == NULL)
        return 1;
    try_feature("session", session, zk);
    try_feature("nodes", nodes, zk);
    try_feature("versions", versions, zk);
    try_feature("sequence", sequence, zk);
    try_feature("ephemerals", ephemerals, zk);
    try_feature("watches", watches, zk);
    try_feature("multi", multi, zk);
    try_feature("acls", acls, zk);
    puts("restart");
    fflush(stdout);
    if (fgets(answer, sizeof answer, stdin) && !strncmp(answer, "done", 4))
        try_feature("reconnect", reconnect, zk);
    zookeeper_close(zk);
    return 0;
}
