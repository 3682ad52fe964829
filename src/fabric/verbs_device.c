/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_device.c -- finds an RDMA device and its address, and connects queue pairs.
 *
 * A device may have many GIDs. On Ethernet, one of RoCE version 2 is routed like UDP over IP, so the address of a TCP
 * connection that reaches the other side names the GID that reaches it too. Where no GID has that address (the
 * connection is over loopback, or the fabric is InfiniBand) the best one of an active port is taken.
 */
#include "fabric/verbs_device.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <farside/error.h>

#include "base/base.h"
#include "fabric/endpoint.h"

enum {
	VERBS_RD_ATOMIC = 16, /* READs and atomics in flight on a connection, at most */
	VERBS_INLINE = 128,
	VERBS_GIDS = 256,
	/* A packet is sent again after 4.096 us * 2^15 = 134 ms without an answer, six times: about a second, and with
	 * what drivers add to it two, until a node counts as dead. Seven would mean for ever to some drivers. */
	VERBS_TIMEOUT = 15,
	VERBS_RETRIES = 6,
	VERBS_HOPS = 64,
};

#define VERBS_24 0xffffffU /* bits of numbers of queue pairs and packets */

static int
verbs_why(char *why, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int
verbs_why(char *why, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, VERBS_WHY, format, args);
	va_end(args);
	return err;
}

/* The library ------------------------------------------------------------------------------------------------ */

/* Where each function of the library goes. */
struct verbs_symbol {
	const char *name;
	size_t at;
};

#define VERBS_SYMBOL(member)                                       \
	{                                                          \
		"ibv_" #member, offsetof(struct verbs_lib, member) \
	}

static const struct verbs_symbol verbs_symbols[] = {
	VERBS_SYMBOL(get_device_list),
	VERBS_SYMBOL(free_device_list),
	VERBS_SYMBOL(get_device_name),
	VERBS_SYMBOL(open_device),
	VERBS_SYMBOL(close_device),
	VERBS_SYMBOL(query_device),
	VERBS_SYMBOL(query_port),
	{ "_ibv_query_gid_table", offsetof(struct verbs_lib, query_gid_table) },
	VERBS_SYMBOL(alloc_pd),
	VERBS_SYMBOL(dealloc_pd),
	VERBS_SYMBOL(reg_mr),
	VERBS_SYMBOL(dereg_mr),
	VERBS_SYMBOL(create_comp_channel),
	VERBS_SYMBOL(destroy_comp_channel),
	VERBS_SYMBOL(create_cq),
	VERBS_SYMBOL(destroy_cq),
	VERBS_SYMBOL(get_cq_event),
	VERBS_SYMBOL(ack_cq_events),
	VERBS_SYMBOL(create_qp),
	VERBS_SYMBOL(modify_qp),
	VERBS_SYMBOL(destroy_qp),
};

static int
verbs_lib_open(struct verbs_lib *lib, char *why)
{
	lib->handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib->handle)
		return verbs_why(
			why, -FAR_ENOTSUP,
			"libibverbs.so.1 cannot be loaded (%s): install the packages libibverbs1 and "
			"ibverbs-providers",
			dlerror());
	for (size_t i = 0; i < FAR_LEN(verbs_symbols); i++) {
		void *symbol = dlsym(lib->handle, verbs_symbols[i].name);

		if (!symbol)
			return verbs_why(why, -FAR_ENOTSUP,
					 "libibverbs.so.1 has no %s: it is too old",
					 verbs_symbols[i].name);
		memcpy((char *)lib + verbs_symbols[i].at, &symbol, sizeof(symbol));
	}
	return 0;
}

/* Addresses -------------------------------------------------------------------------------------------------- */

/* The GID that an IP address has; false: none. */
static bool
verbs_gid_of(const struct sockaddr *addr, socklen_t len, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (len >= sizeof(struct sockaddr_in) && addr->sa_family == AF_INET) {
		gid[10] = gid[11] = 0xff;
		memcpy(gid + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
		return true;
	}
	if (len >= sizeof(struct sockaddr_in6) && addr->sa_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
		return true;
	}
	return false;
}

static bool
verbs_gid_is_ipv4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

/* How well a GID serves: routed ones first, those that everybody has last. */
static int
verbs_gid_rank(const struct ibv_gid_entry *e, const uint8_t *local)
{
	bool link_local = e->gid.raw[0] == 0xfe && (e->gid.raw[1] & 0xc0) == 0x80;

	if (e->gid_type == IBV_GID_TYPE_IB)
		return 6;
	if (e->gid_type == IBV_GID_TYPE_ROCE_V1)
		return 1;
	if (local && memcmp(e->gid.raw, local, 16) == 0)
		return 7;
	return link_local ? 2 : verbs_gid_is_ipv4(e->gid.raw) ? 5
							      : 4;
}

static void
verbs_device_say(struct verbs_device *d)
{
	static const char *const types[] = { "InfiniBand", "RoCE v1", "RoCE v2" };
	const uint8_t *raw = d->gid.gid.raw;
	char text[INET6_ADDRSTRLEN];

	if (verbs_gid_is_ipv4(raw))
		inet_ntop(AF_INET, raw + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, raw, text, sizeof(text));
	snprintf(d->name, sizeof(d->name), "RDMA device %s, port %u, GID %u: %s (%s)",
		 d->lib.get_device_name(d->context->device), d->gid.port_num, d->gid.gid_index,
		 text, types[d->gid.gid_type % FAR_LEN(types)]);
}

/* Finding one ------------------------------------------------------------------------------------------------ */

/* What a search has met. */
struct verbs_search {
	const struct verbs_want *want;
	const uint8_t *local; /* GID, or NULL */
	int rank;             /* of the best so far */
	struct ibv_device *device;
	unsigned devices, ports; /* of these names, active */
	int failed;              /* errno of a device that could not be opened */
};

static bool
verbs_port_active(struct verbs_lib *lib, struct ibv_context *context, uint32_t port)
{
	struct ibv_port_attr attr = { .state = IBV_PORT_NOP };

	return lib->query_port(context, (uint8_t)port, &attr) == 0 && attr.state == IBV_PORT_ACTIVE;
}

/* Looks through one device's GIDs. The best one so far goes to *best. */
static void
verbs_search_device(struct verbs_lib *lib, struct verbs_search *s, struct ibv_device *device,
		    struct ibv_gid_entry *best)
{
	struct ibv_gid_entry *table = calloc(VERBS_GIDS, sizeof(*table));
	struct ibv_context *context = lib->open_device(device);
	struct ibv_device_attr attr;
	ssize_t n = 0;

	if (!context)
		s->failed = errno;
	if (context && table && lib->query_device(context, &attr) == 0) {
		for (uint32_t port = 1; port <= attr.phys_port_cnt; port++)
			s->ports += verbs_port_active(lib, context, port);
		n = lib->query_gid_table(context, table, VERBS_GIDS, 0, sizeof(*table));
	}
	for (ssize_t i = 0; i < n; i++) {
		int rank = verbs_gid_rank(&table[i], s->local);

		if (s->want->gid >= 0 && table[i].gid_index != (uint32_t)s->want->gid)
			continue;
		if (rank > s->rank && verbs_port_active(lib, context, table[i].port_num)) {
			s->rank = rank;
			s->device = device;
			*best = table[i];
		}
	}
	if (context)
		lib->close_device(context);
	free(table);
}

static int
verbs_search_trouble(const struct verbs_search *s, char *why)
{
	const char *name = s->want->device[0] ? s->want->device : "(any)";

	if (s->devices == 0 && s->want->device[0])
		return verbs_why(why, -FAR_ENOTSUP,
				 "there is no RDMA device '%s': 'rdma link' lists them", name);
	if (s->devices == 0)
		return verbs_why(
			why, -FAR_ENOTSUP,
			"no RDMA device: 'rdma link' is empty. Load its driver, or make one of software: "
			"rdma link add rxe0 type rxe netdev eth0");
	if (s->failed)
		return verbs_why(
			why, s->failed == EACCES || s->failed == EPERM ? -FAR_EACCESS : -FAR_EIO,
			"RDMA device %s cannot be opened: %s. /dev/infiniband/uverbs* must be open to this user",
			name, strerror(s->failed));
	if (s->ports == 0)
		return verbs_why(
			why, -FAR_ENOTSUP,
			"RDMA device %s: 0 active ports. Plug in the cable or bring its network card up ('rdma "
			"link' shows the state); InfiniBand needs a subnet manager",
			name);
	return verbs_why(
		why, -FAR_ENOTSUP,
		"RDMA device %s: no GID%s on an active port. Give its network card an IP address, or name "
		"another index",
		name, s->want->gid >= 0 ? " of that index" : "");
}

/* Finds and opens a device and notes its GID. */
static int
verbs_device_find(struct verbs_device *d, struct verbs_search *s, char *why)
{
	struct ibv_device **list;
	int n = 0, err = 0;

	list = d->lib.get_device_list(&n);
	for (int i = 0; list && i < n; i++) {
		if (s->want->device[0] &&
		    strcmp(d->lib.get_device_name(list[i]), s->want->device) != 0)
			continue;
		s->devices++;
		verbs_search_device(&d->lib, s, list[i], &d->gid);
	}
	if (s->device)
		d->context = d->lib.open_device(s->device);
	if (!d->context)
		err = verbs_search_trouble(s, why);
	if (list)
		d->lib.free_device_list(list);
	return err;
}

static int
verbs_device_examine(struct verbs_device *d, char *why)
{
	verbs_device_say(d);
	if (d->lib.query_device(d->context, &d->attr) != 0 ||
	    d->lib.query_port(d->context, (uint8_t)d->gid.port_num, &d->port) != 0)
		return verbs_why(why, -FAR_EIO, "%s: %s", d->name, strerror(errno));
	if (d->attr.atomic_cap == IBV_ATOMIC_NONE)
		return verbs_why(
			why, -FAR_ENOTSUP,
			"%s: it has no atomic operations (atomic_cap is NONE), which tables need. Use another "
			"device, or tcp:",
			d->name);
	d->pd = d->lib.alloc_pd(d->context);
	return d->pd ? 0
		     : verbs_why(why, -FAR_ENOMEM, "%s: no protection domain: %s", d->name,
				 strerror(errno));
}

int
verbs_device_open(struct verbs_device *d, const struct verbs_want *want,
		  const struct sockaddr *local, socklen_t local_len, char *why)
{
	struct verbs_search search = { .want = want };
	uint8_t gid[16];
	int err;

	memset(d, 0, sizeof(*d));
	if (local_len > 0 && verbs_gid_of(local, local_len, gid))
		search.local = gid;
	err = verbs_lib_open(&d->lib, why);
	if (!err)
		err = verbs_device_find(d, &search, why);
	if (!err)
		err = verbs_device_examine(d, why);
	if (err)
		verbs_device_close(d);
	return err;
}

void
verbs_device_close(struct verbs_device *d)
{
	if (d->channel)
		FAR_ASSERT(d->lib.destroy_comp_channel(d->channel) == 0);
	if (d->pd)
		FAR_ASSERT(d->lib.dealloc_pd(d->pd) == 0);
	if (d->context)
		d->lib.close_device(d->context);
	if (d->lib.handle)
		dlclose(d->lib.handle);
	memset(d, 0, sizeof(*d));
}

int
verbs_device_channel(struct verbs_device *d, char *why)
{
	int flags;

	d->channel = d->lib.create_comp_channel(d->context);
	if (!d->channel)
		return verbs_why(why, -FAR_ENOMEM, "%s: no completion channel: %s", d->name,
				 strerror(errno));
	flags = fcntl(d->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(d->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return verbs_why(why, -FAR_EIO, "%s: %s", d->name, strerror(errno));
	return 0;
}

/* Memory ----------------------------------------------------------------------------------------------------- */

struct ibv_mr *
verbs_device_register(struct verbs_device *d, void *base, size_t len, int access, char *why)
{
	struct ibv_mr *mr = d->lib.reg_mr(d->pd, base, len, access);
	struct rlimit limit = { 0, 0 };
	int failed = errno;

	if (mr)
		return mr;
	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (failed == ENOMEM && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < len)
		verbs_why(
			why, 0,
			"%zu bytes cannot be registered for RDMA: the limit of locked memory (ulimit -l) is %llu KiB. "
			"Raise it: LimitMEMLOCK= of a systemd unit, or 'memlock' in /etc/security/limits.conf",
			len, (unsigned long long)limit.rlim_cur / 1024);
	else
		verbs_why(
			why, 0, "%zu bytes cannot be registered for RDMA: %s%s", len,
			strerror(failed),
			failed == EOPNOTSUPP || failed == EFAULT || failed == EINVAL
				? ". Not every file system allows it: leave the file out, or put it on a tmpfs"
				: "");
	return NULL;
}

/* Queue pairs ------------------------------------------------------------------------------------------------ */

/* READs and atomics at a time that this device serves, or sends. */
static uint32_t
verbs_rd_atomic(int device_max)
{
	return (uint32_t)far_max(1, far_min(device_max, VERBS_RD_ATOMIC));
}

int
verbs_qp_open(struct verbs_device *d, uint32_t depth, struct verbs_qp *out)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = VERBS_INLINE },
	};
	struct verbs_qp q = { .psn = (uint32_t)endpoint_random(NULL) & VERBS_24 };

	q.depth = (uint32_t)far_min(depth, far_min(d->attr.max_qp_wr, d->attr.max_cqe));
	q.cq = d->lib.create_cq(d->context, (int)q.depth, NULL, d->channel, 0);
	if (!q.cq)
		return -FAR_ENOMEM;
	attr.send_cq = attr.recv_cq = q.cq;
	attr.cap.max_send_wr = q.depth;
	q.qp = d->lib.create_qp(d->pd, &attr);
	if (!q.qp && errno == EINVAL) {
		/* A device may have no inline data. */
		attr.cap.max_inline_data = 0;
		q.qp = d->lib.create_qp(d->pd, &attr);
	}
	if (!q.qp) {
		verbs_qp_close(d, &q);
		return -FAR_ENOMEM;
	}
	q.inline_max = (uint32_t)far_min(attr.cap.max_inline_data, VERBS_INLINE);
	*out = q;
	return 0;
}

void
verbs_qp_offer(const struct verbs_device *d, const struct verbs_qp *q, struct verbs_offer *out)
{
	*out = (struct verbs_offer){
		.version = VERBS_VERSION,
		.qpn = q->qp->qp_num,
		.psn = q->psn,
		.rd_atomic = verbs_rd_atomic(d->attr.max_qp_rd_atom),
		.lid = d->port.lid,
		.mtu = (uint8_t)d->port.active_mtu,
		.link_layer = d->port.link_layer,
	};
	memcpy(out->gid, d->gid.gid.raw, sizeof(out->gid));
}

static bool
verbs_offer_fits(const struct verbs_device *d, const struct verbs_offer *o)
{
	return o->version == VERBS_VERSION && o->qpn <= VERBS_24 && o->psn <= VERBS_24 &&
	       o->mtu >= IBV_MTU_256 && o->mtu <= IBV_MTU_4096 && o->rd_atomic >= 1 &&
	       o->link_layer == d->port.link_layer;
}

static bool
verbs_qp_ready(struct verbs_device *d, struct verbs_qp *q)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)d->gid.port_num,
		.qp_access_flags = q->access,
	};

	return d->lib.modify_qp(q->qp, &a,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					IBV_QP_ACCESS_FLAGS) == 0;
}

/* It receives what comes from there. */
static bool
verbs_qp_receive(struct verbs_device *d, struct verbs_qp *q, const struct verbs_offer *o)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)far_min(o->mtu, d->port.active_mtu),
		.dest_qp_num = o->qpn,
		.rq_psn = o->psn,
		.max_dest_rd_atomic = (uint8_t)verbs_rd_atomic(d->attr.max_qp_rd_atom),
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = o->lid,
			     .port_num = (uint8_t)d->gid.port_num,
			     .is_global = d->port.link_layer == IBV_LINK_LAYER_ETHERNET },
	};
	struct ibv_global_route *grh = &a.ah_attr.grh;

	memcpy(grh->dgid.raw, o->gid, sizeof(o->gid));
	grh->sgid_index = (uint8_t)d->gid.gid_index;
	grh->hop_limit = VERBS_HOPS;
	return d->lib.modify_qp(q->qp, &a,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER) == 0;
}

static bool
verbs_qp_send(struct verbs_device *d, struct verbs_qp *q, const struct verbs_offer *o)
{
	uint32_t mine = verbs_rd_atomic(d->attr.max_qp_init_rd_atom);
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = q->psn,
		.timeout = VERBS_TIMEOUT,
		.retry_cnt = VERBS_RETRIES,
		.rnr_retry = VERBS_RETRIES,
		/* The queue pair itself holds back what the other side could not serve yet. */
		.max_rd_atomic = (uint8_t)far_min(mine, o->rd_atomic),
	};

	return d->lib.modify_qp(q->qp, &a,
				IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

int
verbs_qp_connect(struct verbs_device *d, struct verbs_qp *q, const struct verbs_offer *theirs)
{
	if (!verbs_offer_fits(d, theirs))
		return -FAR_EFORMAT;
	if (verbs_qp_ready(d, q) && verbs_qp_receive(d, q, theirs) && verbs_qp_send(d, q, theirs))
		return 0;
	return -FAR_ENODE;
}

void
verbs_qp_stop(struct verbs_device *d, struct verbs_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	/* Closing it is as good; where even that fails the driver is broken. */
	if (q->qp)
		(void)d->lib.modify_qp(q->qp, &a, IBV_QP_STATE);
}

void
verbs_qp_close(struct verbs_device *d, struct verbs_qp *q)
{
	if (q->qp)
		FAR_ASSERT(d->lib.destroy_qp(q->qp) == 0);
	if (q->cq)
		FAR_ASSERT(d->lib.destroy_cq(q->cq) == 0);
	memset(q, 0, sizeof(*q));
}
