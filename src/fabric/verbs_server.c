/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_server.c -- queue pairs and keys of a memory node's clients. */
#include "fabric/verbs_server.h"

#include <netdb.h>
#include <string.h>
#include <sys/mman.h>

#include <farside/error.h>
#include <farside/fiber.h>

#include "base/base.h"
#include "fabric/tcp_uri.h"
#include "fabric/verbs_device.h"

enum {
	VERBS_REMOTE = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	VERBS_BINDS = 4,         /* work requests of a queue pair that only receives */
	VERBS_BIND_NS = 1 << 30, /* a device that takes a second for one is broken */
};

struct verbs_server {
	struct tcp_attach attach;
	struct verbs_device device;
	const struct shm_region *region;
	bool windows;
	struct ibv_mr *mr; /* of the whole region; windows lie in it */
	char name[200];
};

/* What one client has. */
struct verbs_way {
	struct verbs_qp qp;
	struct ibv_mw *mw; /* one of these two */
	struct ibv_mr *mr;
	uint32_t rkey;
};

/* Keys ------------------------------------------------------------------------------------------------------- */

/* Waits for the window's binding. It needs nobody but the device, so it takes microseconds. */
static bool
verbs_way_bound(struct verbs_way *w)
{
	uint64_t start = far_clock_real.now(far_clock_real.arg);
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(w->qp.cq, 1, &wc);
	while (n == 0 && far_clock_real.now(far_clock_real.arg) - start < VERBS_BIND_NS);
	return n == 1 && wc.status == IBV_WC_SUCCESS;
}

/* Opens a window on the region for what arrives on the client's queue pair. */
static bool
verbs_way_window(struct verbs_server *s, struct verbs_way *w)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;

	w->mw = ibv_alloc_mw(s->device.pd, IBV_MW_TYPE_2);
	if (!w->mw)
		return false;
	w->rkey = ibv_inc_rkey(w->mw->rkey);
	wr.bind_mw.mw = w->mw;
	wr.bind_mw.rkey = w->rkey;
	wr.bind_mw.bind_info.mr = s->mr;
	wr.bind_mw.bind_info.addr = (uintptr_t)s->region->base;
	wr.bind_mw.bind_info.length = s->region->len;
	wr.bind_mw.bind_info.mw_access_flags = VERBS_REMOTE;
	return ibv_post_send(w->qp.qp, &wr, &bad) == 0 && verbs_way_bound(w);
}

static bool
verbs_way_region_key(struct verbs_server *s, struct verbs_way *w)
{
	char why[VERBS_WHY];

	w->mr = verbs_device_register(&s->device, s->region->base, s->region->len,
				      IBV_ACCESS_LOCAL_WRITE | VERBS_REMOTE, why);
	if (!w->mr)
		return false;
	w->rkey = w->mr->rkey;
	return true;
}

/* Clients ---------------------------------------------------------------------------------------------------- */

/*
 * Order: the queue pair stops first, so nothing is under way in the key when it is taken; a window is gone before the
 * queue pair that it belongs to. A device that refuses one of these could go on letting the client in: then the end of
 * this process is what stops it.
 */
static void
verbs_server_detach(void *arg, void *way)
{
	struct verbs_server *s = arg;
	struct verbs_way *w = way;

	verbs_qp_stop(&s->device, &w->qp);
	if (w->mw)
		FAR_ASSERT(ibv_dealloc_mw(w->mw) == 0);
	verbs_qp_close(&s->device, &w->qp);
	if (w->mr)
		FAR_ASSERT(s->device.lib.dereg_mr(w->mr) == 0);
	free(w);
}

static int
verbs_server_connect(struct verbs_server *s, struct verbs_way *w, const struct verbs_offer *theirs,
		     struct verbs_offer *mine)
{
	int err = verbs_qp_open(&s->device, VERBS_BINDS, &w->qp);

	w->qp.access = VERBS_REMOTE;
	if (!err)
		err = verbs_qp_connect(&s->device, &w->qp, theirs);
	if (err)
		return err;
	/* A queue pair that is connected can bind; the client knows no key before the answer. */
	if (!(s->windows ? verbs_way_window(s, w) : verbs_way_region_key(s, w)))
		return -FAR_ENOMEM;
	verbs_qp_offer(&s->device, &w->qp, mine);
	mine->rkey = w->rkey;
	mine->base = (uintptr_t)s->region->base;
	return 0;
}

static int
verbs_server_take(void *arg, const void *ask, size_t len, struct tcp_attach_answer *answer)
{
	struct verbs_offer theirs, mine;
	struct verbs_way *w;
	int err;

	if (len != sizeof(theirs))
		return -FAR_EFORMAT;
	memcpy(&theirs, ask, sizeof(theirs));
	if ((w = calloc(1, sizeof(*w))) == NULL)
		return -FAR_ENOMEM;
	if ((err = verbs_server_connect(arg, w, &theirs, &mine)) != 0) {
		verbs_server_detach(arg, w);
		return err;
	}
	memcpy(answer->data, &mine, sizeof(mine));
	answer->len = sizeof(mine);
	answer->way = w;
	return 0;
}

/* Start and end ---------------------------------------------------------------------------------------------- */

/* The address that the node listens at may be one of a device's. */
static int
verbs_server_device(struct verbs_server *s, const struct tcp_uri *uri, char *why)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	struct addrinfo *found = NULL;
	struct verbs_want want = { .device = uri->device, .gid = uri->gid };
	int err;

	if (getaddrinfo(uri->nodes[0].host, uri->nodes[0].port, &hints, &found) != 0)
		found = NULL;
	err = verbs_device_open(&s->device, &want, found ? found->ai_addr : NULL,
				found ? found->ai_addrlen : 0, why);
	if (found)
		freeaddrinfo(found);
	return err;
}

static int
verbs_server_register(struct verbs_server *s, char *why)
{
	/* It lets nobody in by itself: that is for windows and for the keys of clients. */
	int access = IBV_ACCESS_LOCAL_WRITE | (s->windows ? IBV_ACCESS_MW_BIND : 0);

	/* A child that shares it would make the kernel copy pinned pages. */
	madvise(s->region->base, s->region->len, MADV_DONTFORK);
	/* Never IBV_ACCESS_RELAXED_ORDERING: G3 rests on the order of WRITEs. */
	s->mr = verbs_device_register(&s->device, s->region->base, s->region->len, access, why);
	return s->mr ? 0 : -FAR_ENOMEM;
}

int
verbs_server_open(const struct tcp_uri *uri, const struct shm_region *region,
		  struct verbs_server **out, struct shm_why *why)
{
	const unsigned types = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	struct verbs_server *s = calloc(1, sizeof(*s));
	char text[VERBS_WHY];
	int err;

	if (!s)
		return shm_why(why, -FAR_ENOMEM, "out of memory");
	s->region = region;
	err = verbs_server_device(s, uri, text);
	if (!err) {
		s->windows = !uri->no_windows && (s->device.attr.device_cap_flags & types) != 0;
		err = verbs_server_register(s, text);
	}
	if (err) {
		verbs_server_close(s);
		return shm_why(why, err, "%s", text);
	}
	snprintf(s->name, sizeof(s->name), "%s; clients get %s", s->device.name,
		 s->windows ? "memory windows" : "keys of the whole region");
	s->attach = (struct tcp_attach){
		.take = verbs_server_take,
		.drop = verbs_server_detach,
		.arg = s,
		.caps = s->device.attr.atomic_cap == IBV_ATOMIC_GLOB ? FAR_CAP_ATOMIC_GLOBAL : 0,
	};
	*out = s;
	return 0;
}

void
verbs_server_close(struct verbs_server *s)
{
	if (!s)
		return;
	if (s->mr)
		FAR_ASSERT(s->device.lib.dereg_mr(s->mr) == 0);
	verbs_device_close(&s->device);
	free(s);
}

const struct tcp_attach *
verbs_server_attach(const struct verbs_server *s)
{
	return &s->attach;
}

const char *
verbs_server_name(const struct verbs_server *s)
{
	return s->name;
}
