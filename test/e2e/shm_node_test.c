/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_node_test.c -- the shm memory node with real processes: the node and each client are one. Speaks the wire format
 * by itself, so that it can break it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <farside/error.h>

#include "base/base.h"
#include "fabric/shm.h"
#include "fabric/shm_node.h"
#include "fabric/shm_wire.h"
#include "pool/control.h"
#include "test.h"

enum { E2E_SIZE = 16 << 20,
       E2E_WAIT_MS = 10000 };

/* A node as a process of its own, in a directory of its own. */
struct e2e {
	char dir[32], path[64], file[64];
	pid_t node;
	struct shm_why why;
	int err; /* of its start */
};

/* One connection to a node. */
struct peer {
	int sock;
	uint8_t *base;
	struct shm_hello hello;
	uint64_t seq;
};

static void
e2e_init(struct e2e *e)
{
	memset(e, 0, sizeof(*e));
	strcpy(e->dir, "/tmp/farside-e2e-XXXXXX");
	REQUIRE(mkdtemp(e->dir) != NULL);
	snprintf(e->path, sizeof(e->path), "%s/node", e->dir);
	snprintf(e->file, sizeof(e->file), "%s/region", e->dir);
}

/* Starts a node; e->err and e->why tell how that went. `file` may be NULL. */
static int
e2e_start(struct e2e *e, const char *file, uint64_t size)
{
	/* A test that dies leaves no node behind. */
	struct shm_node_opts opts = { .path = e->path, .file = file, .size = size, .child = true };

	e->node = 0;
	e->why = (struct shm_why){ "" };
	e->err = shm_node_fork(&opts, NULL, &e->node, &e->why);
	return e->err;
}

static void
e2e_kill(struct e2e *e, int sig)
{
	if (e->node <= 0)
		return;
	kill(e->node, sig);
	waitpid(e->node, NULL, 0);
	e->node = 0;
}

static void
e2e_fini(struct e2e *e)
{
	e2e_kill(e, SIGTERM);
	/* A clean end takes the socket along. */
	CHECK(access(e->path, F_OK) != 0);
	unlink(e->path);
	unlink(e->file);
	CHECK(rmdir(e->dir) == 0);
}

/* Clients --------------------------------------------------------------------------------------------------- */

static int
peer_hello(struct peer *p)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { &p->hello, sizeof(p->hello) };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *c;
	int fd;

	if (recvmsg(p->sock, &m, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(p->hello) || p->hello.err)
		return -1;
	c = CMSG_FIRSTHDR(&m);
	if (c == NULL || c->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* Connects and maps; false when the node does not take the client (p->hello.err). *fd may be NULL. */
static bool
peer_open(struct peer *p, const char *path, int *fd)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int region;

	memset(p, 0, sizeof(*p));
	strcpy(addr.sun_path, path);
	p->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(p->sock, (struct sockaddr *)&addr, sizeof(addr)) != 0 || (region = peer_hello(p)) < 0) {
		close(p->sock);
		return false;
	}
	p->base = mmap(NULL, p->hello.region_len, PROT_READ | PROT_WRITE, MAP_SHARED, region, 0);
	REQUIRE(p->base != MAP_FAILED);
	if (fd)
		*fd = region;
	else
		close(region);
	return true;
}

static void
peer_close(struct peer *p)
{
	munmap(p->base, p->hello.region_len);
	close(p->sock);
}

static void
peer_send(struct peer *p, const struct control_request *req)
{
	struct {
		struct shm_frame frame;
		struct control_request req;
	} packet = {
		{ .seq = ++p->seq, .len = sizeof(*req) }, *req
	};

	CHECK(send(p->sock, &packet, sizeof(packet), MSG_NOSIGNAL) == (ssize_t)sizeof(packet));
}

/* The next reply; err is -FAR_ENODE when the connection has ended, -FAR_ETIMEOUT when none comes. */
static struct control_reply
peer_receive(struct peer *p, int wait_ms)
{
	struct {
		struct shm_frame frame;
		struct control_reply reply;
	} packet;
	struct control_reply failed = { .err = -FAR_ENODE };
	struct pollfd ready = { .fd = p->sock, .events = POLLIN };

	if (poll(&ready, 1, wait_ms) != 1) {
		failed.err = -FAR_ETIMEOUT;
		return failed;
	}
	if (recv(p->sock, &packet, sizeof(packet), 0) != (ssize_t)sizeof(packet))
		return failed;
	CHECK(packet.frame.seq <= p->seq && packet.frame.len == sizeof(packet.reply));
	return packet.reply;
}

static struct control_reply
peer_call(struct peer *p, struct control_request req)
{
	peer_send(p, &req);
	return peer_receive(p, E2E_WAIT_MS);
}

#define CALL(p, ...) peer_call((p), (struct control_request){ __VA_ARGS__ })

static struct pool_super *
peer_super(const struct peer *p)
{
	return (struct pool_super *)p->base;
}

static volatile uint64_t *
peer_line(const struct peer *p, unsigned slot)
{
	return (volatile uint64_t *)(p->base + peer_super(p)->sessions_off + slot * 64);
}

static struct pool_page
peer_page(const struct peer *p, uint64_t off)
{
	const struct pool_super *s = peer_super(p);

	return pool_page_unpack(((volatile uint64_t *)(p->base + s->pages_off))[(off - s->data_off) / POOL_PAGE]);
}

/* Connects, opens a session, makes table "t". */
static struct control_reply
peer_first(struct peer *p, const char *path)
{
	struct control_reply t;

	REQUIRE(peer_open(p, path, NULL));
	CHECK_EQ(CALL(p, .code = CONTROL_FORM, .pool_id = { 1, 2 }, .nodes_n = 1).err, 0);
	CHECK_EQ(CALL(p, .code = CONTROL_SESSION).err, 0);
	t = CALL(p, .code = CONTROL_ROOT_NEW, .name = "t", .design = "race");
	CHECK_EQ(t.err, 0);
	CHECK_EQ(CALL(p, .code = CONTROL_ROOT_SET, .table = t.table, .root_serial = t.serial, .off = 64).err, 0);
	return t;
}

/* A client process: opens a session and takes a chunk, then does what it is told. */
struct victim {
	pid_t pid;
	int order; /* a byte makes it go on */
	uint64_t serial, off;
	uint32_t slot;
};

enum victim_plan { VICTIM_WAITS,
		   VICTIM_HANGS_UP,
		   VICTIM_LEAVES };

static _Noreturn void
victim_run(const char *path, struct control_reply table, enum victim_plan plan, int report, int order)
{
	struct control_request range = { .code = CONTROL_RANGE }, leave = { .code = CONTROL_LEAVE };
	struct control_reply s, c;
	struct victim v = { 0 };
	struct peer p;
	char byte;

	if (!peer_open(&p, path, NULL))
		_exit(1);
	s = CALL(&p, .code = CONTROL_SESSION);
	c = CALL(&p, .code = CONTROL_GRANT, .table = table.table, .root_serial = table.serial, .kind = 1, .run = 1);
	v.serial = s.serial;
	v.slot = s.slot;
	v.off = c.off;
	if (plan == VICTIM_HANGS_UP)
		close(p.sock);
	if (s.err || c.err || write(report, &v, sizeof(v)) != (ssize_t)sizeof(v) || read(order, &byte, 1) != 1)
		_exit(1);
	/* Ends without waiting for the answers. */
	for (int i = 0; plan == VICTIM_LEAVES && i < 3; i++)
		peer_send(&p, i < 2 ? &range : &leave);
	_exit(0);
}

static struct victim
victim_start(const char *path, struct control_reply table, enum victim_plan plan)
{
	int report[2], order[2];
	struct victim v;
	pid_t pid;

	REQUIRE(pipe2(report, O_CLOEXEC) == 0 && pipe2(order, O_CLOEXEC) == 0);
	if ((pid = fork()) == 0) {
		close(order[1]);
		victim_run(path, table, plan, report[1], order[0]);
	}
	REQUIRE(pid > 0);
	close(report[1]);
	close(order[0]);
	REQUIRE(read(report[0], &v, sizeof(v)) == (ssize_t)sizeof(v));
	close(report[0]);
	v.pid = pid;
	v.order = order[1];
	return v;
}

/* Reaps it; returns its wait status. */
static int
victim_reap(struct victim *v)
{
	int status = 0;

	close(v->order);
	waitpid(v->pid, &status, 0);
	return status;
}

/* Waits until the session's line is free. */
static bool
line_frees(const struct peer *p, unsigned slot)
{
	for (int i = 0; i < E2E_WAIT_MS && *peer_line(p, slot) != 0; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return *peer_line(p, slot) == 0;
}

/* Cases: one node ------------------------------------------------------------------------------------------- */

static void
test_connect_receives_a_sealed_region_of_the_asked_size(void)
{
	struct stat st;
	struct peer p;
	struct e2e e;
	int fd;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	REQUIRE(stat(e.path, &st) == 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	REQUIRE(peer_open(&p, e.path, &fd));
	CHECK(p.hello.magic == SHM_MAGIC && p.hello.version == SHM_VERSION);
	CHECK_EQ(p.hello.region_len, E2E_SIZE);
	REQUIRE(fstat(fd, &st) == 0);
	CHECK_EQ(st.st_size, E2E_SIZE);
	CHECK(ftruncate(fd, 4096) != 0 && errno == EPERM);
	CHECK_EQ(peer_super(&p)->magic, POOL_MAGIC);
	close(fd);
	peer_close(&p);
	e2e_fini(&e);
}

static void
test_client_killed_frees_its_session_and_orphans_dirty(void)
{
	struct control_reply t;
	struct victim v;
	struct peer p;
	struct e2e e;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	t = peer_first(&p, e.path);
	v = victim_start(e.path, t, VICTIM_WAITS);
	CHECK_EQ(*peer_line(&p, v.slot), v.serial);
	CHECK_EQ(peer_page(&p, v.off).owner, v.slot + 1);
	kill(v.pid, SIGKILL);
	CHECK(WIFSIGNALED(victim_reap(&v)));
	CHECK(line_frees(&p, v.slot));
	CHECK_EQ(peer_page(&p, v.off).owner, 0);
	CHECK_EQ(peer_page(&p, v.off).flags, POOL_PAGE_DIRTY);
	CHECK_EQ(CALL(&p, .code = CONTROL_FENCE, .serial = v.serial).err, 0);
	peer_close(&p);
	e2e_fini(&e);
}

static void
test_client_leaving_just_before_its_end_is_clean(void)
{
	struct control_reply t;
	struct victim v;
	struct peer p;
	struct e2e e;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	t = peer_first(&p, e.path);
	v = victim_start(e.path, t, VICTIM_LEAVES);
	/* The node learns of both at once. */
	kill(e.node, SIGSTOP);
	CHECK(write(v.order, "x", 1) == 1);
	CHECK_EQ(victim_reap(&v), 0);
	kill(e.node, SIGCONT);
	CHECK(line_frees(&p, v.slot));
	CHECK_EQ(peer_page(&p, v.off).kind, POOL_PAGE_BLOCKS);
	CHECK_EQ(peer_page(&p, v.off).flags, 0);
	peer_close(&p);
	e2e_fini(&e);
}

static void
test_fence_of_a_stopped_client_kills_it_and_answers(void)
{
	struct control_reply t;
	struct victim v;
	struct peer p;
	struct e2e e;
	int status;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	t = peer_first(&p, e.path);
	v = victim_start(e.path, t, VICTIM_WAITS);
	kill(v.pid, SIGSTOP);
	CHECK_EQ(CALL(&p, .code = CONTROL_FENCE, .serial = v.serial).err, 0);
	/* When the answer is there, so is the effect. */
	CHECK_EQ(*peer_line(&p, v.slot), 0);
	CHECK_EQ(peer_page(&p, v.off).flags, POOL_PAGE_DIRTY);
	status = victim_reap(&v);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	peer_close(&p);
	e2e_fini(&e);
}

static void
test_fence_of_two_sessions_answers_each(void)
{
	struct control_request fence = { .code = CONTROL_FENCE };
	struct victim v[2];
	struct control_reply t;
	struct peer p;
	struct e2e e;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	t = peer_first(&p, e.path);
	for (int i = 0; i < 2; i++)
		v[i] = victim_start(e.path, t, VICTIM_WAITS);
	for (int i = 0; i < 2; i++) {
		fence.serial = v[i].serial;
		peer_send(&p, &fence);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(peer_receive(&p, E2E_WAIT_MS).err, 0);
	for (int i = 0; i < 2; i++) {
		CHECK(WIFSIGNALED(victim_reap(&v[i])));
		CHECK_EQ(*peer_line(&p, v[i].slot), 0);
	}
	peer_close(&p);
	e2e_fini(&e);
}

static void
test_fence_of_a_session_in_the_own_process_is_einval(void)
{
	struct peer p, q;
	struct control_reply s;
	struct e2e e;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	peer_first(&p, e.path);
	REQUIRE(peer_open(&q, e.path, NULL));
	s = CALL(&q, .code = CONTROL_SESSION);
	CHECK_EQ(CALL(&p, .code = CONTROL_FENCE, .serial = s.serial).err, -FAR_EINVAL);
	CHECK_EQ(CALL(&q, .code = CONTROL_RANGE).err, 0);
	peer_close(&q);
	peer_close(&p);
	e2e_fini(&e);
}

static void
test_connection_closed_without_leave_keeps_the_session(void)
{
	struct control_reply t;
	struct victim v, w;
	struct peer p;
	struct e2e e;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	t = peer_first(&p, e.path);
	v = victim_start(e.path, t, VICTIM_HANGS_UP);
	w = victim_start(e.path, t, VICTIM_HANGS_UP);
	/* Its process could still write to the region. */
	CHECK(w.slot != v.slot);
	CHECK_EQ(CALL(&p, .code = CONTROL_RANGE).err, 0);
	CHECK_EQ(*peer_line(&p, v.slot), v.serial);
	CHECK_EQ(CALL(&p, .code = CONTROL_FENCE, .serial = v.serial).err, 0);
	CHECK(WIFSIGNALED(victim_reap(&v)));
	CHECK(write(w.order, "x", 1) == 1);
	CHECK_EQ(victim_reap(&w), 0);
	CHECK(line_frees(&p, w.slot));
	peer_close(&p);
	e2e_fini(&e);
}

static void
test_packet_with_a_wrong_length_breaks_only_its_connection(void)
{
	static const struct {
		uint32_t len;
		size_t sent;
	} bad[] = {
		{ 0, 8 },
		{ 100, 16 },
		{ 100, 200 },
		{ SHM_PAYLOAD_MAX + 1, 16 + SHM_PAYLOAD_MAX + 1 },
		{ 0xfffffff0, 16 },
	};
	static uint8_t packet[2 * SHM_PAYLOAD_MAX];
	struct shm_frame frame = { .seq = 1 };
	struct peer p, q;
	struct e2e e;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	peer_first(&p, e.path);
	for (size_t i = 0; i < FAR_LEN(bad); i++) {
		REQUIRE(peer_open(&q, e.path, NULL));
		frame.len = bad[i].len;
		memcpy(packet, &frame, sizeof(frame));
		CHECK(send(q.sock, packet, bad[i].sent, MSG_NOSIGNAL) == (ssize_t)bad[i].sent);
		CHECK_EQ(peer_receive(&q, E2E_WAIT_MS).err, -FAR_ENODE);
		peer_close(&q);
	}
	/* A whole packet that is no request is answered. */
	REQUIRE(peer_open(&q, e.path, NULL));
	frame.len = 24;
	q.seq = 1;
	memcpy(packet, &frame, sizeof(frame));
	CHECK(send(q.sock, packet, sizeof(frame) + 24, MSG_NOSIGNAL) == (ssize_t)sizeof(frame) + 24);
	CHECK_EQ(peer_receive(&q, E2E_WAIT_MS).err, -FAR_EINVAL);
	peer_close(&q);
	CHECK_EQ(CALL(&p, .code = CONTROL_RANGE).err, 0);
	peer_close(&p);
	e2e_fini(&e);
}

static void
test_client_that_takes_no_answers_is_cut_off(void)
{
	struct {
		struct shm_frame frame;
		struct control_request req;
	} packet = {
		{ .seq = 1, .len = sizeof(struct control_request) }, { .code = CONTROL_RANGE }
	};
	struct peer p, q;
	struct e2e e;
	int sent = 0;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	peer_first(&p, e.path);
	REQUIRE(peer_open(&q, e.path, NULL));
	while (sent < 100000 && send(q.sock, &packet, sizeof(packet), MSG_NOSIGNAL) > 0)
		sent++;
	CHECK(sent < 100000);
	CHECK_EQ(CALL(&p, .code = CONTROL_RANGE).err, 0);
	peer_close(&q);
	peer_close(&p);
	e2e_fini(&e);
}

static void
test_connections_beyond_the_limit_are_told_so(void)
{
	struct rlimit old, few = { 64 + 2 * 4, 64 + 2 * 4 };
	struct peer p[5];
	struct e2e e;
	pid_t pid;
	int status;

	/* The limit follows from the descriptors that the node may have; the hard one is not raised again. */
	fflush(stdout);
	if ((pid = fork()) == 0) {
		getrlimit(RLIMIT_NOFILE, &old);
		e2e_init(&e);
		setrlimit(RLIMIT_NOFILE, &few);
		REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
		for (int i = 0; i < 4; i++)
			CHECK(peer_open(&p[i], e.path, NULL));
		CHECK(!peer_open(&p[4], e.path, NULL));
		CHECK_EQ(p[4].hello.err, -FAR_EAGAIN);
		/* The silent ones hinder nobody; a place that gets free is given again. */
		CHECK_EQ(CALL(&p[3], .code = CONTROL_FORM, .pool_id = { 1, 2 }, .nodes_n = 1).err, 0);
		peer_close(&p[0]);
		CHECK_EQ(CALL(&p[3], .code = CONTROL_SESSION).err, 0);
		CHECK(peer_open(&p[4], e.path, NULL));
		for (int i = 1; i < 5; i++)
			peer_close(&p[i]);
		e2e_fini(&e);
		_exit(test_failures ? 1 : 0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
}

/* The node ends a client by ending its process: no other one may have got the mapping from it. */
static void
test_child_of_a_client_does_not_inherit_the_mapping(void)
{
	struct shm_link k = { .sock = -1 };
	unsigned char resident;
	struct e2e e;
	int status;
	pid_t pid;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	REQUIRE(shm_link_open(&k, e.path, strlen(e.path), UINT64_C(5000000000)) == 0);
	CHECK(mincore(k.words.base, 4096, &resident) == 0);
	if ((pid = fork()) == 0)
		_exit(mincore(k.words.base, 4096, &resident) != 0 && errno == ENOMEM ? 0 : 1);
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
	shm_link_close(&k);
	e2e_fini(&e);
}

static uint64_t
cpu_ns(pid_t pid)
{
	unsigned long long ns = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	if ((f = fopen(path, "r")) == NULL)
		return 0;
	if (fscanf(f, "%llu", &ns) != 1)
		ns = 0;
	fclose(f);
	return ns;
}

static void
test_idle_node_uses_no_cpu(void)
{
	struct peer p, q;
	struct e2e e;
	uint64_t before;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	peer_first(&p, e.path);
	REQUIRE(peer_open(&q, e.path, NULL));
	if ((before = cpu_ns(e.node)) > 0) {
		nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
		/* 1 % of 200 ms. */
		CHECK(cpu_ns(e.node) - before < 2000000);
	} else {
		test_skip_reason = "no schedstat here";
	}
	peer_close(&q);
	peer_close(&p);
	e2e_fini(&e);
}

/* Cases: restarts ------------------------------------------------------------------------------------------- */

static void
test_restart_on_a_file_keeps_data_and_fences_sessions(void)
{
	struct control_reply t;
	uint64_t generation;
	struct pool_super *s;
	struct victim v;
	struct peer p;
	struct e2e e;
	pid_t other;
	int status;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, e.file, E2E_SIZE) == 0);
	/* The first client ends, so that this process is not among those that the restart kills. */
	fflush(stdout);
	if ((other = fork()) == 0) {
		peer_first(&p, e.path);
		_exit(test_failures ? 1 : 0);
	}
	REQUIRE(waitpid(other, &status, 0) == other);
	CHECK_EQ(status, 0);
	REQUIRE(peer_open(&p, e.path, NULL));
	s = peer_super(&p);
	generation = s->generation;
	t = (struct control_reply){ .table = 0, .serial = 2 };
	v = victim_start(e.path, t, VICTIM_WAITS);
	memset(p.base + v.off + POOL_UNIT, 0x5a, 1000);
	kill(v.pid, SIGSTOP);
	e2e_kill(&e, SIGKILL);
	CHECK_EQ(*peer_line(&p, v.slot), v.serial);
	peer_close(&p);
	/* The socket is still there, nobody serves it. */
	CHECK(access(e.path, F_OK) == 0);
	CHECK(!peer_open(&p, e.path, NULL));

	REQUIRE(e2e_start(&e, e.file, 0) == 0);
	status = victim_reap(&v);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	REQUIRE(peer_open(&p, e.path, NULL));
	s = peer_super(&p);
	CHECK(s->generation == generation && s->pool_id[0] == 1 && s->pool_id[1] == 2);
	CHECK_EQ(*peer_line(&p, v.slot), 0);
	CHECK_EQ(peer_page(&p, v.off).flags, POOL_PAGE_DIRTY);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(p.base[v.off + POOL_UNIT + i], 0x5a);
	CHECK(CALL(&p, .code = CONTROL_SESSION).serial > v.serial);
	CHECK_EQ(CALL(&p, .code = CONTROL_ROOT_NEW, .name = "t", .design = "race").err, -FAR_EEXIST);
	CHECK_EQ(CALL(&p, .code = CONTROL_LEAVE).err, 0);
	peer_close(&p);
	e2e_fini(&e);
}

static void
test_restart_spares_a_new_process_with_an_old_id(void)
{
	volatile struct pool_private *private;
	struct peer p;
	struct e2e e;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, e.file, E2E_SIZE) == 0);
	peer_first(&p, e.path);
	/* As if this process's id had belonged to a client that started earlier. */
	private = (volatile struct pool_private *)(p.base + peer_super(&p)->private_off);
	CHECK_EQ(private->note[0] & 0xffffffff, getpid());
	private->note[1]--;
	e2e_kill(&e, SIGKILL);
	peer_close(&p);
	REQUIRE(e2e_start(&e, e.file, 0) == 0);
	REQUIRE(peer_open(&p, e.path, NULL));
	CHECK_EQ(*peer_line(&p, 0), 0);
	peer_close(&p);
	e2e_fini(&e);
}

static void
test_restart_in_memory_comes_back_empty(void)
{
	uint64_t generation;
	struct peer p;
	struct e2e e;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	peer_first(&p, e.path);
	generation = peer_super(&p)->generation;
	e2e_kill(&e, SIGKILL);
	/* The client notices, and its mapping does no harm. */
	CHECK_EQ(peer_receive(&p, E2E_WAIT_MS).err, -FAR_ENODE);
	peer_close(&p);
	REQUIRE(e2e_start(&e, NULL, E2E_SIZE) == 0);
	REQUIRE(peer_open(&p, e.path, NULL));
	CHECK(peer_super(&p)->generation != generation);
	CHECK_EQ(peer_super(&p)->nodes_n, 0);
	peer_close(&p);
	e2e_fini(&e);
}

/* Changes the 4 bytes at `at` of a file. */
static void
file_patch(const char *file, off_t at, uint32_t value)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);

	REQUIRE(fd >= 0);
	CHECK(pwrite(fd, &value, sizeof(value), at) == (ssize_t)sizeof(value));
	close(fd);
}

static void
test_start_on_a_wrong_file_says_why(void)
{
	off_t format = offsetof(struct pool_super, format), data = offsetof(struct pool_super, data_off);
	struct e2e e;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, e.file, E2E_SIZE) == 0);
	e2e_kill(&e, SIGTERM);
	CHECK_EQ(e2e_start(&e, e.file, 2 * E2E_SIZE), -FAR_EINVAL);
	CHECK(strstr(e.why.text, "not the 33554432 asked for") != NULL);
	file_patch(e.file, format, POOL_FORMAT + 1);
	CHECK_EQ(e2e_start(&e, e.file, 0), -FAR_EFORMAT);
	CHECK(strstr(e.why.text, "format version 2") != NULL);
	file_patch(e.file, format, POOL_FORMAT);
	file_patch(e.file, data, 0);
	CHECK_EQ(e2e_start(&e, e.file, 0), -FAR_ECORRUPT);
	CHECK(strstr(e.why.text, e.file) != NULL);
	file_patch(e.file, data, POOL_SUPERPAGE);
	REQUIRE(chmod(e.file, 0644) == 0);
	CHECK_EQ(e2e_start(&e, e.file, 0), -FAR_EACCESS);
	CHECK(strstr(e.why.text, "mode 0600, not 0644") != NULL);
	REQUIRE(chmod(e.file, 0600) == 0);
	REQUIRE(truncate(e.file, E2E_SIZE - 4096) == 0);
	CHECK_EQ(e2e_start(&e, e.file, 0), -FAR_ECORRUPT);
	CHECK(strstr(e.why.text, "truncated") != NULL);
	REQUIRE(truncate(e.file, 0) == 0);
	CHECK_EQ(e2e_start(&e, e.file, 0), -FAR_EFORMAT);
	CHECK(access(e.path, F_OK) != 0);
	e2e_fini(&e);
}

static void
test_start_twice_on_one_file_or_socket_is_refused(void)
{
	struct e2e e, second;
	struct stat st;

	e2e_init(&e);
	REQUIRE(e2e_start(&e, e.file, E2E_SIZE) == 0);
	REQUIRE(stat(e.file, &st) == 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	CHECK_EQ(st.st_size, E2E_SIZE);
	second = e;
	CHECK_EQ(e2e_start(&second, NULL, E2E_SIZE), -FAR_EEXIST);
	CHECK(strstr(second.why.text, "serves this socket") != NULL);
	strcat(second.path, "2");
	CHECK_EQ(e2e_start(&second, e.file, E2E_SIZE), -FAR_EEXIST);
	CHECK(strstr(second.why.text, "serves this file") != NULL);
	CHECK(access(second.path, F_OK) != 0);
	/* The first one is unharmed. */
	struct peer p;

	CHECK(peer_open(&p, e.path, NULL));
	peer_close(&p);
	e2e_fini(&e);
}

/* The lock is the node's, not that of clients which got the same region. */
static void
test_restart_while_a_client_without_session_lives_succeeds(void)
{
	struct peer p;
	struct e2e e;
	int fd;

	e2e_init(&e);
	/* The first run makes the file, the second one opens it. */
	REQUIRE(e2e_start(&e, e.file, E2E_SIZE) == 0);
	for (int i = 0; i < 2; i++) {
		REQUIRE(peer_open(&p, e.path, &fd));
		e2e_kill(&e, SIGKILL);
		REQUIRE(e2e_start(&e, e.file, 0) == 0);
		close(fd);
		peer_close(&p);
	}
	e2e_fini(&e);
}

static void
test_start_at_a_bad_path_says_why(void)
{
	struct e2e e;

	e2e_init(&e);
	close(open(e.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	CHECK_EQ(e2e_start(&e, NULL, E2E_SIZE), -FAR_EEXIST);
	CHECK(strstr(e.why.text, "not a socket") != NULL);
	CHECK(access(e.path, F_OK) == 0);
	unlink(e.path);
	CHECK_EQ(e2e_start(&e, NULL, 4096), -FAR_EINVAL);
	CHECK_EQ(e2e_start(&e, "/nonexistent/file", E2E_SIZE), -FAR_EIO);
	CHECK_EQ(e2e_start(&e, e.dir, E2E_SIZE), -FAR_EIO);
	snprintf(e.path, sizeof(e.path), "%s/none/node", e.dir);
	CHECK_EQ(e2e_start(&e, NULL, E2E_SIZE), -FAR_EIO);
	e2e_fini(&e);
}

/* Cases: embedded nodes ------------------------------------------------------------------------------------- */

static void
test_spawn_serves_and_stop_leaves_nothing(void)
{
	struct shm_child c;
	struct shm_why why;
	struct peer p;
	char dir[64];

	REQUIRE(shm_node_spawn(E2E_SIZE, &c, &why) == 0);
	strcpy(dir, c.dir);
	CHECK(peer_open(&p, c.uri + 4, NULL));
	peer_close(&p);
	shm_node_stop(&c);
	CHECK(access(dir, F_OK) != 0);
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	CHECK_EQ(shm_node_spawn(1000, &c, &why), -FAR_EINVAL);
	CHECK(why.text[0] != '\0');
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static void
test_spawned_node_ends_with_its_parent(void)
{
	struct shm_child c;
	struct shm_why why;
	struct pollfd ended;
	int report[2];
	pid_t parent;

	REQUIRE(pipe2(report, O_CLOEXEC) == 0);
	if ((parent = fork()) == 0) {
		if (shm_node_spawn(E2E_SIZE, &c, &why) == 0 && write(report[1], &c, sizeof(c)) > 0)
			pause();
		_exit(1);
	}
	REQUIRE(read(report[0], &c, sizeof(c)) == (ssize_t)sizeof(c));
	ended = (struct pollfd){ .fd = (int)syscall(SYS_pidfd_open, c.pid, 0), .events = POLLIN };
	REQUIRE(ended.fd >= 0);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	CHECK_EQ(poll(&ended, 1, E2E_WAIT_MS), 1);
	CHECK(access(c.dir, F_OK) != 0);
	close(ended.fd);
	close(report[0]);
	close(report[1]);
}

TEST_MAIN(TEST(test_connect_receives_a_sealed_region_of_the_asked_size),
	  TEST(test_client_killed_frees_its_session_and_orphans_dirty),
	  TEST(test_client_leaving_just_before_its_end_is_clean),
	  TEST(test_fence_of_a_stopped_client_kills_it_and_answers),
	  TEST(test_fence_of_two_sessions_answers_each),
	  TEST(test_fence_of_a_session_in_the_own_process_is_einval),
	  TEST(test_connection_closed_without_leave_keeps_the_session),
	  TEST(test_packet_with_a_wrong_length_breaks_only_its_connection),
	  TEST(test_client_that_takes_no_answers_is_cut_off),
	  TEST(test_connections_beyond_the_limit_are_told_so),
	  TEST(test_child_of_a_client_does_not_inherit_the_mapping),
	  TEST(test_idle_node_uses_no_cpu),
	  TEST(test_restart_on_a_file_keeps_data_and_fences_sessions),
	  TEST(test_restart_spares_a_new_process_with_an_old_id),
	  TEST(test_restart_in_memory_comes_back_empty),
	  TEST(test_start_on_a_wrong_file_says_why),
	  TEST(test_start_twice_on_one_file_or_socket_is_refused),
	  TEST(test_restart_while_a_client_without_session_lives_succeeds),
	  TEST(test_start_at_a_bad_path_says_why),
	  TEST(test_spawn_serves_and_stop_leaves_nothing),
	  TEST(test_spawned_node_ends_with_its_parent))
