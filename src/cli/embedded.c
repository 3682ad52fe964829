/* SPDX-License-Identifier: Apache-2.0 */
/* embedded.c -- memory nodes as child processes. */
#include "cli/embedded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farside/error.h>
#include <farside/fabric.h>

struct embedded {
	unsigned nodes_n;
	struct shm_child nodes[FAR_NODES_MAX];
	char uri[FAR_NODES_MAX * sizeof(((struct shm_child *)0)->uri)];
};

int
embedded_open(unsigned nodes, uint64_t size, struct embedded **out, struct shm_why *why)
{
	struct embedded *e = calloc(1, sizeof(*e));
	const char *path;
	int err;

	if (!e) {
		snprintf(why->text, sizeof(why->text), "out of memory");
		return -FAR_ENOMEM;
	}
	for (; e->nodes_n < nodes; e->nodes_n++) {
		if ((err = shm_node_spawn(size, &e->nodes[e->nodes_n], why)) != 0) {
			embedded_close(e);
			return err;
		}
		path = strchr(e->nodes[e->nodes_n].uri, ':') + 1;
		snprintf(e->uri + strlen(e->uri), sizeof(e->uri) - strlen(e->uri), "%s%s",
			 e->nodes_n ? "," : "shm:", path);
	}
	*out = e;
	return 0;
}

const char *
embedded_uri(const struct embedded *e)
{
	return e->uri;
}

void
embedded_close(struct embedded *e)
{
	if (!e)
		return;
	for (unsigned i = 0; i < e->nodes_n; i++)
		shm_node_stop(&e->nodes[i]);
	free(e);
}
