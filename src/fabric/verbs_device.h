/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_device.h -- an RDMA device of this machine, and reliable connections on it.
 *
 * libibverbs is loaded when a device is opened, and by nobody else: the library runs where it is not installed. One
 * device belongs to one user, a fabric or a memory node, and so does its protection domain.
 */
#ifndef FAR_FABRIC_VERBS_DEVICE_H
#define FAR_FABRIC_VERBS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>

#include <farside/fabric.h>

#include "fabric/verbs_wire.h"

/* What is used of libibverbs besides what its header defines inline. */
struct verbs_lib {
	void *handle;
	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
				   uint32_t flags, size_t entry_size);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t len, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *arg, struct ibv_comp_channel *channel,
				    int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **arg);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned n);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
};

/* Which device: its name, or "" for the first that fits; the index of its GID, or -1. */
struct verbs_want {
	const char *device;
	int gid;
};

struct verbs_device {
	struct verbs_lib lib;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* or NULL */
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_gid_entry gid; /* with the port's number */
	char name[160]; /* for people: device, port, GID */
};

enum { VERBS_WHY = FAR_FABRIC_ERRMSG };

/*
 * Opens the device that `want` names; else the one that has `local` as an address, the near end of a connection to the
 * other side (of length 0: none is known); else the first one with an active port. On error nothing is left open and
 * `why` (VERBS_WHY bytes) tells what is missing, how much of it there is, and what to do: -FAR_ENOTSUP (no library, no
 * device, no active port, no GID, no atomics), -FAR_EACCESS, -FAR_ENOMEM, -FAR_EIO.
 */
int verbs_device_open(struct verbs_device *d, const struct verbs_want *want, const struct sockaddr *local,
		      socklen_t local_len, char *why);
/* What was made on it is gone. One that is zeroed may be closed too. */
void verbs_device_close(struct verbs_device *d);

/* Makes d->channel, which does not block: it becomes readable when something completes on a completion queue that was
 * armed. -FAR_ENOMEM, -FAR_EIO. */
int verbs_device_channel(struct verbs_device *d, char *why);

/* Registers memory. NULL: `why` says which limit was met. */
struct ibv_mr *verbs_device_register(struct verbs_device *d, void *base, size_t len, int access, char *why);

/* A queue pair with a completion queue of its own. */
struct verbs_qp {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	unsigned access;     /* what the other side may do here: enum ibv_access_flags */
	uint32_t psn;        /* random */
	uint32_t depth;      /* work requests that it holds */
	uint32_t inline_max; /* bytes of a WRITE that need no registered memory */
};

/* Makes one with room for `depth` work requests, or less where the device has less, that lets nothing in yet: set
 * q->access. Completions go to d->channel, if there is one. -FAR_ENOMEM; then nothing is left. */
int verbs_qp_open(struct verbs_device *d, uint32_t depth, struct verbs_qp *out);

/* What the other side has to know; rkey and base are zero. */
void verbs_qp_offer(const struct verbs_device *d, const struct verbs_qp *q, struct verbs_offer *out);

/* Connects it to the other side's. -FAR_EFORMAT: such an offer cannot be; -FAR_ENODE: no way leads there. */
int verbs_qp_connect(struct verbs_device *d, struct verbs_qp *q, const struct verbs_offer *theirs);

/* From its return on nothing arrives on it and nothing goes out. */
void verbs_qp_stop(struct verbs_device *d, struct verbs_qp *q);
/* One that is zeroed may be closed too. */
void verbs_qp_close(struct verbs_device *d, struct verbs_qp *q);

#endif
