/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_absent.c -- stands for the verbs backend where the headers of libibverbs were missing at build time. */
#include "fabric/verbs.h"
#include "fabric/verbs_server.h"

static int
verbs_fabric_open(const char *spec, struct far_loop *l, const struct far_fabric_opts *opts,
		  struct far_fabric **out)
{
	return -FAR_ENOTSUP;
}

const struct far_fabric_ops verbs_fabric_ops = {
	.name = "verbs",
	.open = verbs_fabric_open,
};

int
verbs_server_open(const struct tcp_uri *uri, const struct shm_region *region,
		  struct verbs_server **out, struct shm_why *why)
{
	return shm_why(
		why, -FAR_ENOTSUP,
		"this program was built without RDMA: install libibverbs-dev and build it again");
}

void
verbs_server_close(struct verbs_server *s)
{
}

const struct tcp_attach *
verbs_server_attach(const struct verbs_server *s)
{
	return NULL;
}

const char *
verbs_server_name(const struct verbs_server *s)
{
	return "";
}
