/* A load generator for ZooKeeper's client port that believes no reply.
 *
 * One thread, one epoll set, N connections with up to D requests outstanding each. Normally a request leaves when a
 * reply has come (closed loop). With --rate requests leave when they are due, whether or not the server keeps up,
 * and are timed from when they were due: so a pause is felt by all who would have asked meanwhile, not by N alone.
 *
 * Every reply is checked: its xid is the oldest one outstanding, zxids never go back, no
 * error, the exact length, and the contents. Anything else ends the run with status 2 and a sentence, so a figure
 * that gets printed is a figure of right answers.
 *
 * What the checks lean on: each connection has a node of its own, an ephemeral one, which it alone writes. The first
 * eight bytes of the node's data are the version that the write of it must lead to. So a read is right exactly if
 * data, version and the writes sent before it on this connection agree (a session reads its own writes).
 *
 * The result is one JSON object on standard output. Latencies are given as a histogram per time window and turned
 * into percentiles by the reader, so that windows can be joined. Loopback only, and always bounded: a server that
 * gives no reply for STALL_SECONDS ends the run.
 *
 * Modes (--op):
 *   ping exists getData getChildren setData createDelete mixed   for --seconds, after --lead-in seconds
 *   connect   whole lives of sessions: connect, handshake, close; --connections of them at any time
 *   fanout    --connections watchers of one node; timed from the write to each of them being told
 *   fill      --count persistent nodes of --bytes each, a thousand to a folder, from folder --first-folder on
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SESSION_MS 30000
#define STALL_SECONDS 30
#define OPENING_AT_ONCE 32 /* below the usual listen backlog of 50, whose overflow costs a second each */
#define FRAME_MAX (4 << 20)
#define PATH_MAX_BYTES 64
#define SPARE_PENDING 4 /* room beside the depth for a keep-alive and the close */
#define CHILDREN 100
#define FOLDER_NODES 1000
#define READS_PER_TEN 7 /* of the mixed load */
#define STAT_BYTES 68
#define NS_PER_S 1000000000LL

#define ROOT "/bench"
#define OWN_PREFIX ROOT "/own-"
#define EPHEMERAL_PREFIX ROOT "/lock-"
#define PARENT ROOT "/hundred"
#define WATCHED ROOT "/watched"

enum { EXISTING = -110, XID_EVENT = -1, XID_PING = -2, SEQUENTIAL_EPHEMERAL = 3 };

enum opcode { CREATE = 1, DELETE = 2, EXISTS = 3, GET_DATA = 4, SET_DATA = 5, GET_CHILDREN = 8, PING = 11, CLOSE = -11 };

enum mode { M_PING, M_EXISTS, M_GET_DATA, M_GET_CHILDREN, M_SET_DATA, M_CREATE_DELETE, M_MIXED, M_CONNECT, M_FANOUT, M_FILL, MODES };
static const char *const mode_names[MODES] = {"ping",         "exists", "getData", "getChildren", "setData",
                                              "createDelete", "mixed",  "connect", "fanout",      "fill"};

/* ---- what was asked for ------------------------------------------------------------------------------------- */

static struct {
    enum mode mode;
    int port, connections, depth, bytes, first_folder;
    long count;
    double seconds, lead_in, window, rate;
    int server_pid;
} want = {.mode = MODES, .connections = 50, .depth = 1, .bytes = 100, .count = 1000, .seconds = 2, .lead_in = 0.3};

/* ---- small things ------------------------------------------------------------------------------------------- */

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory) die("out of memory");
    return memory;
}

struct buffer {
    uint8_t *at;
    size_t start, end, size; /* start..end is not consumed yet */
};

static void reserve(struct buffer *b, size_t more) {
    if (b->start == b->end) b->start = b->end = 0;
    if (b->end + more <= b->size) return;
    memmove(b->at, b->at + b->start, b->end - b->start);
    b->end -= b->start;
    b->start = 0;
    if (b->end + more <= b->size) return;
    b->size = 2 * (b->end + more);
    b->at = realloc(b->at, b->size);
    if (!b->at) die("out of memory");
}

static void put_bytes(struct buffer *b, const void *bytes, size_t length) {
    reserve(b, length);
    memcpy(b->at + b->end, bytes, length);
    b->end += length;
}
static void put_int(struct buffer *b, int32_t value) {
    uint32_t wire = htobe32((uint32_t)value);
    put_bytes(b, &wire, 4);
}
static void put_long(struct buffer *b, int64_t value) {
    uint64_t wire = htobe64((uint64_t)value);
    put_bytes(b, &wire, 8);
}
static void put_byte(struct buffer *b, uint8_t value) { put_bytes(b, &value, 1); }
static void put_string(struct buffer *b, const char *text) {
    put_int(b, (int32_t)strlen(text));
    put_bytes(b, text, strlen(text));
}

static int32_t int_at(const uint8_t *at) {
    uint32_t wire;
    memcpy(&wire, at, 4);
    return (int32_t)be32toh(wire);
}
static int64_t long_at(const uint8_t *at) {
    uint64_t wire;
    memcpy(&wire, at, 8);
    return (int64_t)be64toh(wire);
}

/* ---- what is measured --------------------------------------------------------------------------------------- */

/* Buckets are 1/64 of their power of two wide: a latency is known to 1.6 percent, up to 2^36 ns. */
#define BUCKETS 2048
#define LATENCY_MAX ((1LL << 36) - 1)

struct histogram {
    uint32_t count[BUCKETS];
};

static struct {
    bool on;
    int64_t from, until; /* until is where it ended, or 0 */
    int64_t requests;
    int64_t delivery_ns; /* fanout: the time between a write and the last watcher told, summed up */
    double server_cpu, own_cpu;
    struct histogram *windows;
    int windows_size, windows_used;
} measured;

static int bucket_of(int64_t ns) {
    if (ns < 64) return ns < 0 ? 0 : (int)ns;
    if (ns > LATENCY_MAX) ns = LATENCY_MAX;
    int shift = 63 - __builtin_clzll((uint64_t)ns) - 6;
    return shift * 64 + (int)(ns >> shift);
}

static int64_t bucket_middle(int bucket) {
    if (bucket < 128) return bucket;
    int shift = bucket / 64 - 1;
    return ((int64_t)(bucket - shift * 64) << shift) + ((1LL << shift) >> 1);
}

static double server_cpu_seconds(void) {
    char path[32], text[1024];
    if (!want.server_pid) return 0;
    snprintf(path, sizeof path, "/proc/%d/stat", want.server_pid);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file)) die("cannot read %s: has the server ended?", path);
    fclose(file);
    long user, system, children_user, children_system;
    if (sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld %ld %ld", &user, &system,
               &children_user, &children_system) != 4)
        die("cannot understand %s", path);
    return (double)(user + system + children_user + children_system) / (double)sysconf(_SC_CLK_TCK);
}

static double own_cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void start_measuring(int64_t now) {
    measured.on = true;
    measured.from = now;
    measured.server_cpu = -server_cpu_seconds();
    measured.own_cpu = -own_cpu_seconds();
}

static void stop_measuring(int64_t now) {
    if (!measured.on) return;
    measured.on = false;
    measured.until = now;
    measured.server_cpu += server_cpu_seconds();
    measured.own_cpu += own_cpu_seconds();
}

static struct histogram *window_at(int64_t when) {
    int index = want.window > 0 && when > measured.from ? (int)((double)(when - measured.from) / 1e9 / want.window) : 0;
    if (index >= measured.windows_size) {
        int size = 2 * index + 64;
        struct histogram *larger = allocate((size_t)size * sizeof *larger);
        if (measured.windows)
            memcpy(larger, measured.windows, (size_t)measured.windows_used * sizeof *larger);
        free(measured.windows);
        measured.windows = larger;
        measured.windows_size = size;
    }
    if (index >= measured.windows_used) measured.windows_used = index + 1;
    return &measured.windows[index];
}

static void record(int64_t sent, int64_t now) {
    if (!measured.on) return;
    measured.requests++;
    window_at(sent)->count[bucket_of(now - sent)]++;
}

static void print_window(const struct histogram *h) {
    const char *comma = "";
    putchar('[');
    for (int i = 0; i < BUCKETS; i++)
        if (h->count[i]) {
            printf("%s[%lld,%u]", comma, (long long)bucket_middle(i), h->count[i]);
            comma = ",";
        }
    putchar(']');
}

static void print_result(void) {
    int64_t taken = want.mode == M_FANOUT ? measured.delivery_ns : measured.until - measured.from;
    printf("{\"requests\": %lld, \"seconds\": %.6f, \"elapsed_seconds\": %.6f, ", (long long)measured.requests,
           (double)taken / 1e9, (double)(measured.until - measured.from) / 1e9);
    printf("\"server_cpu_seconds\": %.3f, \"generator_cpu_seconds\": %.6f, ", measured.server_cpu, measured.own_cpu);
    printf("\"started_at\": %.6f, \"window_seconds\": %.6f, \"windows\": [", (double)measured.from / 1e9, want.window);
    for (int i = 0; i < measured.windows_used; i++) {
        if (i) putchar(',');
        print_window(&measured.windows[i]);
    }
    puts("]}");
}

/* ---- connections -------------------------------------------------------------------------------------------- */

enum state { UNOPENED, CONNECTING, SHAKING_HANDS, MAKING_NODE, READY, CLOSING, CLOSED };

struct pending {
    int64_t sent;
    enum opcode opcode;
    int32_t xid;
    int32_t version; /* of the own node, as this request must find or leave it */
    bool counts;     /* part of the load, as against a keep-alive */
};

struct connection {
    int number, fd;
    enum state state;
    bool wants_write;
    int32_t xid, version; /* the last ones used */
    int64_t zxid, session, opened, sent;
    char own_path[PATH_MAX_BYTES];
    struct buffer in, out;
    struct pending *queue; /* a ring: replies come in the order of requests */
    unsigned head, tail;
    uint64_t random;
    uint8_t *children; /* getChildren's answer once it was understood: later ones must be the same */
    size_t children_length;
    long filled; /* how many requests of this connection's share of a fill were sent */
};

static struct connection *connections;
static int epoll_fd, unopened_next, opening, ready, closed;
static int64_t last_reply; /* anywhere: the run is stuck if this gets old while something is outstanding */
static long outstanding;
static bool stopping; /* nothing new is sent any more */
static unsigned queue_size;
static uint8_t *pattern; /* what node data consists of behind its version */

static struct {
    int armed, told;
    int64_t written;
} round_of_watches;

static void fail(const struct connection *c, const char *format, ...) {
    va_list arguments;
    char text[256];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    die("connection %d: %s", c->number, text);
}

static bool is_writer(const struct connection *c) { return want.mode == M_FANOUT && c->number == want.connections; }
static int connection_count(void) { return want.connections + (want.mode == M_FANOUT); }

static void watch_socket(struct connection *c, int action) {
    struct epoll_event event = {.events = EPOLLIN | (c->wants_write ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(epoll_fd, action, c->fd, &event)) die("epoll_ctl: %s", strerror(errno));
}

static void flush(struct connection *c) {
    while (c->out.start < c->out.end) {
        ssize_t sent = send(c->fd, c->out.at + c->out.start, c->out.end - c->out.start, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) fail(c, "send: %s", strerror(errno));
        c->out.start += (size_t)sent;
    }
    bool wants_write = c->out.start < c->out.end;
    if (wants_write != c->wants_write) {
        c->wants_write = wants_write;
        watch_socket(c, EPOLL_CTL_MOD);
    }
}

static void start_connecting(struct connection *c, int64_t now) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)want.port)};
    int yes = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0) die("socket: %s", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS)
        fail(c, "connect: %s", strerror(errno));
    c->state = CONNECTING;
    c->opened = now;
    c->in.start = c->in.end = c->out.start = c->out.end = 0;
    c->xid = c->version = 0;
    c->zxid = 0;
    c->wants_write = true;
    outstanding++;
    watch_socket(c, EPOLL_CTL_ADD);
}

static void open_some(int64_t now) {
    int at_once = want.mode == M_CONNECT ? want.connections : OPENING_AT_ONCE;
    for (; opening < at_once && unopened_next < connection_count(); opening++)
        start_connecting(&connections[unopened_next++], now);
}

static void send_connect_request(struct connection *c) {
    put_int(&c->out, 45);
    put_int(&c->out, 0);  /* protocolVersion */
    put_long(&c->out, 0); /* lastZxidSeen */
    put_int(&c->out, SESSION_MS);
    put_long(&c->out, 0); /* sessionId: a new one */
    put_int(&c->out, 16);
    put_bytes(&c->out, (uint8_t[16]){0}, 16);
    put_byte(&c->out, 0); /* readOnly */
    c->state = SHAKING_HANDS;
    flush(c);
}

/* ---- requests ----------------------------------------------------------------------------------------------- */

/* Each of these appends one frame; the length, put first as zero, is set by `end_request`. */
static size_t begin_request(struct connection *c, enum opcode opcode, int64_t now, bool counts) {
    if (c->tail - c->head == queue_size) fail(c, "more requests outstanding than there is room for");
    struct pending *p = &c->queue[c->tail++ % queue_size];
    *p = (struct pending){now, opcode, opcode == PING ? XID_PING : ++c->xid, c->version, counts};
    outstanding++;
    c->sent = now;
    put_int(&c->out, 0);
    put_int(&c->out, p->xid);
    put_int(&c->out, opcode);
    return c->out.end - c->out.start;
}

static void end_request(struct connection *c, size_t end_of_header) {
    size_t length = c->out.end - c->out.start - end_of_header + 8;
    uint32_t wire = htobe32((uint32_t)length);
    memcpy(c->out.at + c->out.end - length - 4, &wire, 4);
}

static void put_data(struct connection *c, int32_t version) {
    put_int(&c->out, want.bytes);
    put_long(&c->out, version);
    put_bytes(&c->out, pattern, (size_t)want.bytes - 8);
}

static void ask_nothing(struct connection *c, enum opcode opcode, int64_t now, bool counts) {
    end_request(c, begin_request(c, opcode, now, counts));
}

static void ask_read(struct connection *c, enum opcode opcode, const char *path, bool watch, int64_t now, bool counts) {
    size_t header = begin_request(c, opcode, now, counts);
    put_string(&c->out, path);
    put_byte(&c->out, watch);
    end_request(c, header);
}

static void ask_set_data(struct connection *c, int64_t now, bool counts) {
    c->version++;
    size_t header = begin_request(c, SET_DATA, now, counts);
    put_string(&c->out, c->own_path);
    put_data(c, c->version);
    put_int(&c->out, -1); /* any version */
    end_request(c, header);
}

static void ask_create(struct connection *c, const char *path, int32_t flags, int64_t now, bool counts) {
    size_t header = begin_request(c, CREATE, now, counts);
    put_string(&c->out, path);
    put_data(c, 0);
    put_int(&c->out, 1); /* one ACL entry: everybody may everything */
    put_int(&c->out, 31);
    put_string(&c->out, "world");
    put_string(&c->out, "anyone");
    put_int(&c->out, flags);
    end_request(c, header);
}

static void ask_delete(struct connection *c, const uint8_t *path, int32_t length, int64_t now) {
    size_t header = begin_request(c, DELETE, now, true);
    put_int(&c->out, length);
    put_bytes(&c->out, path, (size_t)length);
    put_int(&c->out, -1); /* any version */
    end_request(c, header);
}

/* A connection fills every want.connections-th folder: the folder itself, then the nodes in it. */
static bool ask_fill(struct connection *c, int64_t now) {
    char path[PATH_MAX_BYTES];
    long folder = c->filled / (FOLDER_NODES + 1) * want.connections + c->number;
    long node = c->filled % (FOLDER_NODES + 1) - 1;
    if (folder * FOLDER_NODES + (node < 0 ? 0 : node) >= want.count) return false;
    int length = snprintf(path, sizeof path, ROOT "/f%05ld", want.first_folder + folder);
    if (node >= 0) snprintf(path + length, sizeof path - (size_t)length, "/n%03ld", node);
    c->filled++;
    ask_create(c, path, 0, now, true);
    return true;
}

static bool dice_below(struct connection *c, unsigned limit) {
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return c->random % 10 < limit;
}

/* The next request of the load. `done` is the reply that made room for it, empty when the load begins. */
static void ask_next(struct connection *c, enum opcode done, const uint8_t *body, int64_t now) {
    switch (want.mode) {
    case M_PING: ask_nothing(c, PING, now, true); break;
    case M_EXISTS: ask_read(c, EXISTS, c->own_path, false, now, true); break;
    case M_GET_DATA: ask_read(c, GET_DATA, c->own_path, false, now, true); break;
    case M_GET_CHILDREN: ask_read(c, GET_CHILDREN, PARENT, false, now, true); break;
    case M_SET_DATA: ask_set_data(c, now, true); break;
    case M_CREATE_DELETE:
        if (done == CREATE) ask_delete(c, body + 4, int_at(body), now);
        else ask_create(c, EPHEMERAL_PREFIX, SEQUENTIAL_EPHEMERAL, now, true);
        break;
    case M_MIXED:
        if (dice_below(c, READS_PER_TEN)) ask_read(c, GET_DATA, c->own_path, false, now, true);
        else ask_set_data(c, now, true);
        break;
    case M_FANOUT:
        if (!is_writer(c)) ask_read(c, GET_DATA, WATCHED, true, now, false);
        break;
    case M_FILL: ask_fill(c, now); break;
    case M_CONNECT:
    case MODES: break;
    }
}

/* ---- replies ------------------------------------------------------------------------------------------------ */

static void check_length(const struct connection *c, size_t got, size_t expected) {
    if (got != expected) fail(c, "a reply body of %zu bytes, expected %zu", got, expected);
}

static void check_stat(const struct connection *c, const uint8_t *stat, int32_t version) {
    if (int_at(stat + 32) != version) fail(c, "version %d, expected %d", int_at(stat + 32), version);
    if (long_at(stat + 44) != c->session) fail(c, "the own node belongs to another session");
    if (int_at(stat + 52) != want.bytes) fail(c, "data length %d, expected %d", int_at(stat + 52), want.bytes);
}

static void check_data(const struct connection *c, const uint8_t *body, size_t length, int32_t version) {
    check_length(c, length, 4 + (size_t)want.bytes + STAT_BYTES);
    if (int_at(body) != want.bytes) fail(c, "%d bytes of data, expected %d", int_at(body), want.bytes);
    if (long_at(body + 4) != version) fail(c, "data of version %lld, expected %d", (long long)long_at(body + 4), version);
    if (memcmp(body + 12, pattern, (size_t)want.bytes - 8)) fail(c, "data that was never written");
    check_stat(c, body + 4 + want.bytes, version);
}

static void check_children(struct connection *c, const uint8_t *body, size_t length) {
    if (c->children) {
        check_length(c, length, c->children_length);
        if (memcmp(body, c->children, length)) fail(c, "other children than before");
        return;
    }
    bool seen[CHILDREN] = {false};
    check_length(c, length, 4 + CHILDREN * 8);
    if (int_at(body) != CHILDREN) fail(c, "%d children, expected %d", int_at(body), CHILDREN);
    for (const uint8_t *child = body + 4; child < body + length; child += 8) {
        int number = (child[5] - '0') * 100 + (child[6] - '0') * 10 + child[7] - '0';
        if (int_at(child) != 4 || child[4] != 'c') fail(c, "a child with a strange name");
        if (number < 0 || number >= CHILDREN || seen[number]) fail(c, "a child twice, or one too many");
        seen[number] = true;
    }
    c->children = allocate(length);
    c->children_length = length;
    memcpy(c->children, body, length);
}

static void check_created(const struct connection *c, const uint8_t *body, size_t length, const char *prefix) {
    size_t expected = strlen(prefix) + 10;
    check_length(c, length, 4 + expected);
    if (int_at(body) != (int32_t)expected) fail(c, "a path of %d bytes, expected %zu", int_at(body), expected);
    if (memcmp(body + 4, prefix, expected - 10)) fail(c, "a path that was not asked for");
    for (size_t i = expected - 10; i < expected; i++)
        if (body[4 + i] < '0' || body[4 + i] > '9') fail(c, "a sequence number that is none");
}

static void check_filled(const struct connection *c, const uint8_t *body, size_t length) {
    size_t folder = strlen(ROOT "/f00000");
    if (length != 4 + folder && length != 4 + folder + strlen("/n000")) fail(c, "a path of a strange length");
    if (int_at(body) != (int32_t)length - 4) fail(c, "a path that is not as long as it says");
    if (memcmp(body + 4, ROOT "/f", strlen(ROOT "/f"))) fail(c, "a path that was not asked for");
}

static void check_body(struct connection *c, const struct pending *p, const uint8_t *body, size_t length) {
    switch (p->opcode) {
    case EXISTS:
        check_length(c, length, STAT_BYTES);
        check_stat(c, body, p->version);
        break;
    case SET_DATA:
        check_length(c, length, STAT_BYTES);
        if (!is_writer(c)) check_stat(c, body, p->version);
        break;
    case GET_DATA:
        if (want.mode == M_FANOUT) check_length(c, length, 4 + (size_t)want.bytes + STAT_BYTES);
        else check_data(c, body, length, p->version);
        break;
    case GET_CHILDREN: check_children(c, body, length); break;
    case CREATE:
        if (want.mode == M_FILL) check_filled(c, body, length);
        else check_created(c, body, length, c->state == MAKING_NODE ? OWN_PREFIX : EPHEMERAL_PREFIX);
        break;
    case DELETE:
    case PING:
    case CLOSE: check_length(c, length, 0); break;
    }
}

/* ---- the life of a connection ------------------------------------------------------------------------------- */

static bool has_own_node(void) { return want.mode <= M_MIXED && want.mode != M_CREATE_DELETE; }

static void begin_closing(struct connection *c, int64_t now) {
    c->state = CLOSING;
    outstanding++; /* not only the reply is owed, but the end of the stream too */
    ask_nothing(c, CLOSE, now, false);
    flush(c);
}

static void become_ready(struct connection *c) {
    c->state = READY;
    opening--;
    ready++;
}

static void took_handshake(struct connection *c, const uint8_t *reply, size_t length, int64_t now) {
    check_length(c, length, 37);
    c->session = long_at(reply + 8);
    if (!c->session) fail(c, "the session was refused");
    if (int_at(reply + 4) <= 0) fail(c, "a session without a timeout");
    outstanding--;
    c->sent = now;
    if (want.mode == M_CONNECT) {
        record(c->opened, now);
        begin_closing(c, now);
    } else if (has_own_node()) {
        c->state = MAKING_NODE;
        ask_create(c, OWN_PREFIX, SEQUENTIAL_EPHEMERAL, now, false);
        flush(c);
    } else {
        become_ready(c);
    }
}

static void start_round_of_watches(struct connection *writer, int64_t now) {
    round_of_watches.told = 0;
    round_of_watches.written = now;
    ask_set_data(writer, now, false);
    flush(writer);
}

static void took_event(struct connection *c, const uint8_t *body, size_t length, int64_t now) {
    size_t path = strlen(WATCHED);
    if (want.mode != M_FANOUT || is_writer(c)) fail(c, "an event that nobody asked for");
    check_length(c, length, 12 + path);
    if (int_at(body) != 3 || int_at(body + 4) != 3) fail(c, "an event that is not about changed data");
    if (int_at(body + 8) != (int32_t)path || memcmp(body + 12, WATCHED, path)) fail(c, "an event about another node");
    record(round_of_watches.written, now);
    if (++round_of_watches.told < want.connections) return;
    if (measured.on) measured.delivery_ns += now - round_of_watches.written;
    round_of_watches.armed = 0;
    for (int i = 0; i < want.connections && !stopping; i++) {
        ask_next(&connections[i], 0, NULL, now);
        flush(&connections[i]);
    }
}

static void took_reply(struct connection *c, const uint8_t *frame, size_t length, int64_t now) {
    if (length < 16) fail(c, "a reply of %zu bytes", length);
    int32_t xid = int_at(frame), error = int_at(frame + 12);
    int64_t zxid = long_at(frame + 4);
    if (zxid < c->zxid) fail(c, "zxid 0x%llx after 0x%llx", (long long)zxid, (long long)c->zxid);
    c->zxid = zxid;
    if (xid == XID_EVENT) {
        took_event(c, frame + 16, length - 16, now);
        return;
    }
    if (c->head == c->tail) fail(c, "a reply (xid %d) to nothing", xid);
    struct pending p = c->queue[c->head++ % queue_size];
    outstanding--;
    if (xid != p.xid) fail(c, "a reply with xid %d, expected %d", xid, p.xid);
    if (error) fail(c, "error %d for opcode %d", error, p.opcode);
    check_body(c, &p, frame + 16, length - 16);
    if (p.counts) record(p.sent, now);

    if (c->state == MAKING_NODE) {
        memcpy(c->own_path, frame + 20, length - 20);
        become_ready(c);
    } else if (want.mode == M_FANOUT && p.opcode == GET_DATA) {
        if (++round_of_watches.armed == want.connections && !stopping)
            start_round_of_watches(&connections[want.connections], now);
    } else if (c->state == READY && p.counts && !stopping && !want.rate) {
        ask_next(c, p.opcode, frame + 16, now);
    }
}

static void took_end(struct connection *c, int64_t now) {
    if (c->state != CLOSING || c->head != c->tail) fail(c, "the server closed it");
    close(c->fd);
    outstanding--;
    c->state = CLOSED;
    if (want.mode == M_CONNECT && !stopping) start_connecting(c, now);
    else closed++;
}

static void took_bytes(struct connection *c, int64_t now) {
    while (c->in.end - c->in.start >= 4) {
        const uint8_t *frame = c->in.at + c->in.start + 4;
        int32_t length = int_at(frame - 4);
        if (length < 0 || length > FRAME_MAX) fail(c, "a frame of %d bytes", length);
        if (c->in.end - c->in.start < 4 + (size_t)length) break;
        if (c->state == SHAKING_HANDS) took_handshake(c, frame, (size_t)length, now);
        else took_reply(c, frame, (size_t)length, now);
        c->in.start += 4 + (size_t)length;
    }
}

static void on_readable(struct connection *c) {
    reserve(&c->in, 65536);
    ssize_t got = recv(c->fd, c->in.at + c->in.end, c->in.size - c->in.end, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    int64_t now = last_reply = now_ns();
    if (got < 0 && !(errno == ECONNRESET && c->state == CLOSING)) fail(c, "recv: %s", strerror(errno));
    if (got <= 0) {
        took_end(c, now);
        return;
    }
    c->in.end += (size_t)got;
    took_bytes(c, now);
    flush(c);
}

static void on_connected(struct connection *c) {
    int error;
    socklen_t size = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) fail(c, "connect: %s", strerror(error));
    send_connect_request(c);
}

/* ---- requests that leave when they are due ------------------------------------------------------------------ */

static struct {
    int timer;
    int64_t first, sent; /* when the first one was due, and how many have left */
} schedule;

static int64_t next_due(void) { return schedule.first + (int64_t)((double)schedule.sent * 1e9 / want.rate); }

static void wait_for_next_due(void) {
    int64_t due = next_due();
    struct itimerspec at = {.it_value = {.tv_sec = due / NS_PER_S, .tv_nsec = due % NS_PER_S}};
    if (timerfd_settime(schedule.timer, TFD_TIMER_ABSTIME, &at, NULL)) die("timerfd_settime: %s", strerror(errno));
}

static void start_schedule(int64_t now) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    schedule.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    if (schedule.timer < 0) die("timerfd_create: %s", strerror(errno));
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, schedule.timer, &event)) die("epoll_ctl: %s", strerror(errno));
    schedule.first = now;
    wait_for_next_due();
}

static void on_due(void) {
    uint64_t expirations;
    ssize_t ignored = read(schedule.timer, &expirations, sizeof expirations);
    (void)ignored;
    for (int64_t now = now_ns(); !stopping && next_due() <= now; schedule.sent++) {
        struct connection *c = &connections[schedule.sent % want.connections];
        ask_next(c, 0, NULL, next_due());
        flush(c);
    }
    if (!stopping) wait_for_next_due();
}

static void on_event(const struct epoll_event *event) {
    struct connection *c = event->data.ptr;
    if (!c) on_due();
    else if (c->state == CONNECTING) on_connected(c);
    else if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) on_readable(c);
    else if (event->events & EPOLLOUT) flush(c);
}

/* ---- the run ------------------------------------------------------------------------------------------------ */

static volatile sig_atomic_t asked_to_stop;
static void on_signal(int number) {
    (void)number;
    asked_to_stop = 1;
}

static void keep_alive(int64_t now) {
    for (int i = 0; i < connection_count(); i++) {
        struct connection *c = &connections[i];
        if (c->state != READY || now - c->sent < SESSION_MS / 3 * 1000000LL) continue;
        ask_nothing(c, PING, now, false);
        flush(c);
    }
}

static void wait_for_events(int64_t until) {
    static int64_t looked_at;
    struct epoll_event events[256];
    int64_t now = now_ns(), wait_ms = (until - now) / 1000000 + 1;
    int count = epoll_wait(epoll_fd, events, 256, wait_ms < 0 ? 0 : wait_ms > 500 ? 500 : (int)wait_ms);
    if (count < 0 && errno != EINTR) die("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < count; i++) on_event(&events[i]);
    if (now - looked_at < NS_PER_S / 2) return;
    looked_at = now;
    keep_alive(now);
    if (outstanding > 0 && now - last_reply > STALL_SECONDS * NS_PER_S)
        die("no reply for %d s, %ld requests outstanding", STALL_SECONDS, outstanding);
}

static void open_connections(void) {
    while (ready < connection_count()) {
        open_some(now_ns());
        wait_for_events(INT64_MAX);
    }
}

static void start_load(void) {
    int64_t now = now_ns();
    if (want.rate) start_schedule(now);
    for (int i = 0; i < want.connections && !want.rate; i++) {
        for (int d = 0; d < want.depth; d++) ask_next(&connections[i], 0, NULL, now);
        flush(&connections[i]);
    }
}

static void run_until(int64_t deadline) {
    while (now_ns() < deadline && !asked_to_stop) wait_for_events(deadline);
}

static void run_for_a_time(void) {
    int64_t begin = now_ns();
    if (want.mode == M_CONNECT) open_some(begin);
    else start_load();
    run_until(begin + (int64_t)(want.lead_in * 1e9));
    start_measuring(now_ns());
    run_until(measured.from + (int64_t)(want.seconds * 1e9));
    stop_measuring(now_ns());
}

static void run_until_all_is_done(void) {
    start_measuring(now_ns());
    start_load();
    while (outstanding > 0 && !asked_to_stop) wait_for_events(INT64_MAX);
    stop_measuring(now_ns());
}

static void close_connections(void) {
    stopping = true;
    while (outstanding > 0) wait_for_events(INT64_MAX);
    for (int i = 0; i < connection_count(); i++)
        if (connections[i].state == READY) begin_closing(&connections[i], now_ns());
    while (closed < unopened_next) wait_for_events(INT64_MAX);
}

/* ---- before the run: nodes that all connections share ------------------------------------------------------- */

static void read_exactly(int fd, uint8_t *at, size_t length) {
    for (size_t got = 0; got < length;) {
        ssize_t more = recv(fd, at + got, length - got, 0);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) die("the server does not answer while the nodes are made");
        got += (size_t)more;
    }
}

static size_t read_frame(int fd, uint8_t *at, size_t size) {
    read_exactly(fd, at, 4);
    size_t length = (size_t)int_at(at);
    if (length > size) die("a frame of %zu bytes while the nodes are made", length);
    read_exactly(fd, at, length);
    return length;
}

static void call(struct connection *c, uint8_t *reply, size_t size) {
    flush(c);
    size_t length = read_frame(c->fd, reply, size);
    struct pending p = c->queue[c->head++ % queue_size];
    outstanding--;
    if (length < 16 || int_at(reply) != p.xid) die("a strange reply while the nodes are made");
    if (int_at(reply + 12) && int_at(reply + 12) != EXISTING) die("error %d while the nodes are made", int_at(reply + 12));
}

static void make_shared_nodes(void) {
    uint8_t reply[1024];
    char path[PATH_MAX_BYTES];
    struct connection c = {.number = -1, .queue = allocate(queue_size * sizeof *c.queue)};
    struct timeval patience = {.tv_sec = STALL_SECONDS};
    start_connecting(&c, now_ns());
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, c.fd, NULL);
    fcntl(c.fd, F_SETFL, 0); /* one question at a time: blocking will do */
    setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    c.wants_write = false;
    send_connect_request(&c);
    read_frame(c.fd, reply, sizeof reply);
    outstanding--;

    ask_create(&c, ROOT, 0, now_ns(), false);
    call(&c, reply, sizeof reply);
    if (want.mode == M_FANOUT) {
        ask_create(&c, WATCHED, 0, now_ns(), false);
        call(&c, reply, sizeof reply);
    }
    if (want.mode == M_GET_CHILDREN) {
        ask_create(&c, PARENT, 0, now_ns(), false);
        call(&c, reply, sizeof reply);
        bool is_new = int_at(reply + 12) == 0;
        for (int i = 0; i < CHILDREN && is_new; i++) {
            snprintf(path, sizeof path, PARENT "/c%03d", i);
            ask_create(&c, path, 0, now_ns(), false);
            call(&c, reply, sizeof reply);
        }
    }
    ask_nothing(&c, CLOSE, now_ns(), false);
    call(&c, reply, sizeof reply);
    close(c.fd);
    free(c.queue);
}

/* ---- the command line --------------------------------------------------------------------------------------- */

static enum mode mode_named(const char *name) {
    for (int mode = 0; mode < MODES; mode++)
        if (!strcmp(name, mode_names[mode])) return (enum mode)mode;
    die("--op %s: there is no such load", name);
    return MODES;
}

static void read_arguments(int count, char **arguments) {
    static const struct option options[] = {
        {"op", 1, 0, 'o'},      {"port", 1, 0, 'p'},    {"connections", 1, 0, 'n'},  {"depth", 1, 0, 'd'},
        {"bytes", 1, 0, 'b'},   {"seconds", 1, 0, 's'}, {"lead-in", 1, 0, 'l'},      {"window", 1, 0, 'w'},
        {"rate", 1, 0, 'r'},    {"count", 1, 0, 'c'},   {"first-folder", 1, 0, 'f'}, {"server-pid", 1, 0, 'i'},
        {0},
    };
    int option;
    while ((option = getopt_long(count, arguments, "", options, NULL)) != -1) switch (option) {
        case 'o': want.mode = mode_named(optarg); break;
        case 'p': want.port = atoi(optarg); break;
        case 'n': want.connections = atoi(optarg); break;
        case 'd': want.depth = atoi(optarg); break;
        case 'b': want.bytes = atoi(optarg); break;
        case 's': want.seconds = atof(optarg); break;
        case 'l': want.lead_in = atof(optarg); break;
        case 'w': want.window = atof(optarg); break;
        case 'r': want.rate = atof(optarg); break;
        case 'c': want.count = atol(optarg); break;
        case 'f': want.first_folder = atoi(optarg); break;
        case 'i': want.server_pid = atoi(optarg); break;
        default: exit(2);
        }
    if (want.mode == MODES || want.port <= 0) die("--op and --port must be given");
    if (want.connections < 1 || want.connections > 10000) die("--connections: 1 to 10000");
    if (want.depth < 1 || want.depth > 10000) die("--depth: 1 to 10000");
    if (want.bytes < 8 || want.bytes > 1000000) die("--bytes: 8 to 1000000");
    if (want.seconds > 3600 || want.lead_in > 3600) die("--seconds, --lead-in: up to 3600");
    if (want.rate && (want.mode > M_MIXED || want.mode == M_CREATE_DELETE))
        die("--rate: not for --op %s", mode_names[want.mode]);
    if (want.mode == M_FANOUT) want.depth = 1;
}

static void allow_many_sockets(void) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

static void prepare(void) {
    allow_many_sockets();
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    epoll_fd = epoll_create1(0);
    queue_size = (unsigned)want.depth + SPARE_PENDING;
    pattern = allocate((size_t)want.bytes);
    for (int i = 0; i < want.bytes; i++) pattern[i] = (uint8_t)('a' + i % 26);
    connections = allocate((size_t)connection_count() * sizeof *connections);
    for (int i = 0; i < connection_count(); i++) {
        connections[i].number = i;
        connections[i].random = 0x9E3779B97F4A7C15u * (uint64_t)(i + 1);
        connections[i].queue = allocate(queue_size * sizeof(struct pending));
        strcpy(connections[i].own_path, WATCHED); /* for the writer of a fan-out; others make theirs */
    }
    last_reply = now_ns();
}

int main(int count, char **arguments) {
    read_arguments(count, arguments);
    prepare();
    make_shared_nodes();
    if (want.mode != M_CONNECT) open_connections();
    if (want.mode == M_FILL) run_until_all_is_done();
    else run_for_a_time();
    close_connections();
    print_result();
    return 0;
}
