/* SPDX-License-Identifier: Apache-2.0 */
/* world.c -- the world of conform/world.h with its memory nodes behind the RDMA device of this machine. */
#include "conform/world.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "fabric/backend.h"
#include "rdma/nodes.h"
#include "test.h"

enum {
	WORLD_CLIENTS = 64,
	WORLD_REGION = 96 << 20, /* at most: the driver is slow at registering memory */
};

struct world {
	struct far_loop *loop;
	struct nodes nodes;
	uint64_t region_len;
	char *region[NODES_MAX]; /* to look at and to damage */
	struct far_fabric *client[WORLD_CLIENTS];
	unsigned clients_n;
};

static const char *
world_file(char file[static 64], unsigned i)
{
	snprintf(file, 64, "/dev/shm/world-%d-%u", (int)getpid(), i);
	return file;
}

/* A node's region is a file of its own, which we map too. It stays while the node takes clients. */
static void
world_node(struct world *w, unsigned i)
{
	char file[64];
	int fd;

	unlink(world_file(file, i));
	REQUIRE(nodes_start_file(&w->nodes, w->region_len, file, ""));
	fd = open(file, O_RDWR | O_CLOEXEC);
	REQUIRE(fd >= 0);
	w->region[i] = mmap(NULL, w->region_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(w->region[i] != MAP_FAILED);
	close(fd);
}

struct world *
world_open(const char *backend, unsigned nodes_n, uint64_t region_len, uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	struct far_loop_opts opts = { .seed = seed };

	REQUIRE(w && nodes_n <= NODES_MAX && strcmp(backend, "verbs") == 0);
	w->region_len = far_min(region_len, WORLD_REGION);
	for (unsigned i = 0; i < nodes_n; i++)
		world_node(w, i);
	REQUIRE(far_loop_open(&opts, &w->loop) == 0);
	return w;
}

struct far_loop *
world_loop(struct world *w)
{
	return w->loop;
}

struct far_fabric *
world_connect(struct world *w)
{
	char uri[NODES_MAX * SHM_URI_MAX];

	nodes_uri(&w->nodes, uri, sizeof(uri));
	REQUIRE(w->clients_n < WORLD_CLIENTS);
	REQUIRE(far_fabric_open(uri, w->loop, NULL, &w->client[w->clients_n]) == 0);
	return w->client[w->clients_n++];
}

char *
world_region(struct world *w, unsigned node)
{
	return w->region[node];
}

void
world_node_down(struct world *w, unsigned node)
{
	nodes_kill(&w->nodes, node, SIGKILL);
}

void
world_run(struct world *w, void (*body)(struct far_task *t, void *arg), void *arg)
{
	REQUIRE(far_loop_spawn(w->loop, world_connect(w), body, arg, 0) == 0);
	far_loop_run(w->loop);
}

void
world_close(struct world *w)
{
	char file[64];

	while (w->clients_n)
		far_fabric_close(w->client[--w->clients_n]);
	far_loop_close(w->loop);
	for (unsigned i = 0; i < w->nodes.n; i++) {
		munmap(w->region[i], w->region_len);
		unlink(world_file(file, i));
	}
	nodes_stop(&w->nodes);
	free(w);
}
