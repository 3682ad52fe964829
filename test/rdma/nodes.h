/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.h -- memory nodes behind the RDMA device of this machine, for tests. */
#ifndef FAR_TEST_RDMA_NODES_H
#define FAR_TEST_RDMA_NODES_H

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "fabric/shm_node.h"

enum { NODES_REGION = 8 << 20, NODES_FREE = 4 << 20, NODES_MAX = 4 };

struct nodes {
	unsigned n;
	pid_t pid[NODES_MAX];
	char uri[NODES_MAX][SHM_URI_MAX];
};

/* Starts one node more, its region in `file` (NULL: in none); `options` follow the address ("?windows=no", or "").
 * False: why not is printed. */
static inline bool
nodes_start_file(struct nodes *w, uint64_t size, const char *file, const char *options)
{
	char listen[SHM_URI_MAX];
	struct shm_node_opts opts = {
		.size = size, .file = file, .child = true, .listen = listen, .listens = w->uri[w->n]
	};
	struct shm_why why;

	snprintf(listen, sizeof(listen), "verbs://127.0.0.1:0%s", options);
	if (shm_node_fork(&opts, NULL, &w->pid[w->n], &why) != 0) {
		printf("# %s\n", why.text);
		return false;
	}
	w->n++;
	return true;
}

static inline bool
nodes_start(struct nodes *w, uint64_t size, const char *options)
{
	return nodes_start_file(w, size, NULL, options);
}

/* The URI of the pool of all of them. */
static inline void
nodes_uri(const struct nodes *w, char *uri, size_t len)
{
	uri[0] = '\0';
	for (unsigned i = 0; i < w->n; i++)
		shm_uri_add(uri, len, w->uri[i]);
}

static inline void
nodes_kill(struct nodes *w, unsigned node, int sig)
{
	kill(w->pid[node], sig);
	waitpid(w->pid[node], NULL, 0);
	w->pid[node] = 0;
}

static inline void
nodes_stop(struct nodes *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		if (w->pid[i] > 0)
			nodes_kill(w, i, SIGTERM);
	}
	w->n = 0;
}

#endif
