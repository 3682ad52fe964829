/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_link.c -- a client's connection to the control socket of one memory node (protocol: shm_wire.h).
 *
 * A call's number holds in its low bits the place where its chain waits, so that replies may come in any order. The
 * end of the connection is the end of the node: what was in flight may or may not have happened.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "fabric/shm.h"
#include "fabric/shm_map.h"
#include "fabric/shm_wire.h"

enum { SHM_LINK_BURST = 64 }; /* messages taken at once */

/* Connecting ----------------------------------------------------------------------------------------------- */

static int
shm_link_error(int err)
{
	switch (err) {
	case EACCES:
	case EPERM:
		return -FAR_EACCESS;
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
		return -FAR_ENOMEM;
	default:
		return -FAR_ENODE;
	}
}

/* Sockets live in real time, whatever clock the loop goes by. */
static uint64_t
shm_link_left(uint64_t deadline)
{
	uint64_t now = far_clock_real.now(far_clock_real.arg);

	return deadline > now ? deadline - now : 0;
}

/* A node that stands still lets its backlog fill up, and a plain connect() would wait for a place in it for ever. */
static int
shm_link_connect(int sock, const struct sockaddr_un *addr, uint64_t deadline)
{
	for (;;) {
		uint64_t us = shm_link_left(deadline) / 1000;
		struct timeval wait = { (time_t)(us / 1000000), (suseconds_t)(us % 1000000) };

		/* 0 would mean for ever. */
		if (us == 0)
			return -FAR_ENODE;
		if (setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) != 0)
			return shm_link_error(errno);
		if (connect(sock, (const struct sockaddr *)addr, sizeof(*addr)) == 0)
			return 0;
		if (errno != EINTR)
			return shm_link_error(errno);
	}
}

static int
shm_link_dial(const char *path, size_t path_len, uint64_t deadline)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock, err;

	if (path_len == 0 || path_len >= sizeof(addr.sun_path))
		return -FAR_EINVAL;
	memcpy(addr.sun_path, path, path_len);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return shm_link_error(errno);
	err = shm_link_connect(sock, &addr, deadline);
	if (err != 0) {
		close(sock);
		return err;
	}
	return sock;
}

/*
 * The one descriptor that came with a message, in *fd; several are closed again. Where this process may have no more
 * open files, the kernel leaves it out and cuts the control data: -FAR_ENOMEM.
 */
static int
shm_link_descriptor(struct msghdr *msg, int *fd)
{
	struct cmsghdr *cm = CMSG_FIRSTHDR(msg);
	size_t n = 0;
	int one;

	if (cm && cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS)
		n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(one);
	for (size_t i = 0; i < n; i++) {
		memcpy(&one, CMSG_DATA(cm) + i * sizeof(one), sizeof(one));
		if (n == 1)
			*fd = one;
		else
			close(one);
	}
	if (n == 1)
		return 0;
	return n == 0 && msg->msg_flags & MSG_CTRUNC ? -FAR_ENOMEM : -FAR_EFORMAT;
}

/* Waits until something came; -FAR_ENODE when that takes too long. */
static int
shm_link_await(int sock, uint64_t deadline)
{
	struct pollfd pfd = { .fd = sock, .events = POLLIN };
	int n;

	do {
		uint64_t left = shm_link_left(deadline);

		n = poll(&pfd, 1, (int)far_min((left + 999999) / 1000000, INT32_MAX));
	} while (n < 0 && errno == EINTR);
	return n > 0 ? 0 : -FAR_ENODE;
}

/* Takes the node's hello and the region's descriptor, which is to be closed also after an error. */
static int
shm_link_hello(int sock, struct shm_hello *hello, int *fd)
{
	struct iovec iov = { hello, sizeof(*hello) };
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int err;

	if (n <= 0)
		return -FAR_ENODE;
	err = shm_link_descriptor(&msg, fd);
	if (n != sizeof(*hello) || hello->magic != SHM_MAGIC || hello->version != SHM_VERSION)
		return -FAR_EFORMAT;
	if (hello->err != 0)
		return hello->err < 0 && hello->err >= -FAR_EAGAIN ? hello->err : -FAR_EFORMAT;
	return err;
}

/* Maps the region; a file shorter than told would be a bus error later. */
static int
shm_link_map(struct shm_link *k, int fd, uint64_t len)
{
	struct stat st;
	void *base;

	if (fstat(fd, &st) != 0 || len == 0 || len % 8 != 0 || len >> 48 != 0 ||
	    (uint64_t)st.st_size < len)
		return -FAR_EFORMAT;
	base = shm_map(fd, len);
	if (!base)
		return shm_link_error(errno);
	/* The node can stop this process, but no child that inherited the mapping and outlives it. */
	if (madvise(base, len, MADV_DONTFORK) != 0) {
		munmap(base, len);
		return -FAR_ENOMEM;
	}
	k->words = (struct words){ base, len, false, 0 };
	return 0;
}

int
shm_link_open(struct shm_link *k, const char *path, size_t path_len, uint64_t timeout_ns)
{
	uint64_t deadline = far_clock_real.now(far_clock_real.arg) + timeout_ns;
	struct shm_hello hello;
	int sock, fd = -1, err;

	sock = shm_link_dial(path, path_len, deadline);
	if (sock < 0)
		return sock;
	err = shm_link_await(sock, deadline);
	if (err == 0)
		err = shm_link_hello(sock, &hello, &fd);
	if (err == 0)
		err = shm_link_map(k, fd, hello.region_len);
	if (fd >= 0)
		close(fd);
	if (err != 0) {
		close(sock);
		return err;
	}
	k->sock = sock;
	return 0;
}

void
shm_link_close(struct shm_link *k)
{
	if (k->sock < 0)
		return;
	munmap(k->words.base, k->words.len);
	close(k->sock);
}

/* Calls ---------------------------------------------------------------------------------------------------- */

static void
shm_link_die(struct shm_link *k, struct far_chain_list *done)
{
	k->dead = true;
	for (int i = 0; i < SHM_CALLS; i++) {
		if (!k->calls[i])
			continue;
		k->calls[i]->status = -FAR_EUNSURE;
		far_chain_list_add(done, k->calls[i]);
		k->calls[i] = NULL;
	}
	k->calls_n = 0;
}

void
shm_link_expire(struct shm_link *k, uint64_t since, struct far_chain_list *done)
{
	for (int i = 0; i < SHM_CALLS && k->calls_n > 0; i++) {
		if (k->calls[i] && k->calls_start[i] < since)
			shm_link_die(k, done);
	}
}

static ssize_t
shm_link_send(struct shm_link *k, uint64_t seq, const struct far_op *op)
{
	struct shm_frame frame = { .seq = seq, .len = op->len };
	struct iovec iov[2] = { { &frame, sizeof(frame) }, { op->buf, op->len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n;

	do
		n = sendmsg(k->sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

int
shm_link_call(struct shm_link *k, struct far_chain *c, uint64_t now, struct far_chain_list *done)
{
	unsigned place = 0;
	uint64_t seq;

	if (k->dead || c->first->len > SHM_PAYLOAD_MAX) {
		c->status = k->dead ? -FAR_ENODE : -FAR_EINVAL;
		far_chain_list_add(done, c);
		return 0;
	}
	while (place < SHM_CALLS && k->calls[place])
		place++;
	if (place == SHM_CALLS)
		return -FAR_EAGAIN;
	seq = ++k->seq * SHM_CALLS + place;
	if (shm_link_send(k, seq, c->first) < 0) {
		if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)
			return -FAR_EAGAIN;
		c->status = -FAR_ENODE;
		far_chain_list_add(done, c);
		shm_link_die(k, done);
		return 0;
	}
	k->calls[place] = c;
	k->calls_seq[place] = seq;
	k->calls_start[place] = now;
	k->calls_n++;
	return 0;
}

/* Gives a reply to the call that waits for it; false when nobody does. */
static bool
shm_link_reply(struct shm_link *k, const struct shm_frame *frame, const void *data,
	       struct far_chain_list *done)
{
	unsigned place = frame->seq % SHM_CALLS;
	struct far_chain *c = k->calls[place];
	struct far_op *op;

	if (!c || k->calls_seq[place] != frame->seq)
		return false;
	op = c->first;
	/* A fault hook may have set the status: then the request took effect and its answer is lost. */
	if (c->status == 0 && frame->len > op->reply_max)
		c->status = -FAR_ECORRUPT;
	if (c->status == 0) {
		memcpy(op->reply, data, frame->len);
		op->reply_max = frame->len;
	}
	far_chain_list_add(done, c);
	k->calls[place] = NULL;
	k->calls_n--;
	return true;
}

void
shm_link_receive(struct shm_link *k, struct far_chain_list *done)
{
	struct {
		struct shm_frame frame;
		unsigned char data[SHM_PAYLOAD_MAX];
	} in;
	ssize_t n;

	for (int i = 0; i < SHM_LINK_BURST && !k->dead; i++) {
		n = recv(k->sock, &in, sizeof(in), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < (ssize_t)sizeof(in.frame) || (size_t)n != sizeof(in.frame) + in.frame.len ||
		    !shm_link_reply(k, &in.frame, in.data, done))
			shm_link_die(k, done);
	}
}
