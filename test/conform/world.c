/* SPDX-License-Identifier: Apache-2.0 */
#include "conform/world.h"

#include "base/base.h"
#include "base/rand.h"
#include "conform/agents.h"
#include "fabric/shm.h"
#include "fabric/sim.h"
#include "pool/node.h"
#include "test.h"

enum { WORLD_CLIENTS = 64 };

/* A node of this process behind the shm backend. */
struct world_node {
	void *region;
	struct node *node;
};

/* One client's control connection to one node. */
struct world_link {
	struct world_node *node;
	uint64_t session;
};

struct world {
	struct far_loop *loop;
	struct far_sim *sim;   /* NULL: another backend */
	struct agents *agents; /* the same */
	uint64_t now_ns; /* shm: time that passes by being looked at, so that no test depends on the machine */
	struct far_rng rng;
	struct node_env env;
	unsigned nodes_n;
	uint64_t region_len;
	struct world_node nodes[FAR_NODES_MAX];
	struct world_link links[WORLD_CLIENTS][FAR_NODES_MAX];
	struct far_fabric *client[WORLD_CLIENTS];
	unsigned clients_n;
};

static uint64_t
world_random(void *arg)
{
	struct world *w = arg;

	return far_rng_next(&w->rng);
}

static uint64_t
world_now(void *arg)
{
	struct world *w = arg;

	return w->now_ns += 100;
}

static void
world_idle(void *arg, uint64_t until)
{
	struct world *w = arg;

	w->now_ns = far_max(w->now_ns, until);
}

/* The clients of a test that dies have stopped already: they are fibers of this process. */
static int
world_stop(void *arg, uint64_t serial)
{
	return 0;
}

static int
world_call(void *arg, const void *req, size_t len, void *reply, size_t max)
{
	struct world_link *l = arg;

	if (len != sizeof(struct control_request) || max < sizeof(struct control_reply))
		return -FAR_EINVAL;
	if (!node_serve(l->node->node, &l->session, req, reply))
		return -FAR_EAGAIN;
	return sizeof(struct control_reply);
}

static void
world_open_shm(struct world *w)
{
	w->env = (struct node_env){ .stop = world_stop, .random = world_random, .arg = w };
	for (unsigned i = 0; i < w->nodes_n; i++) {
		struct world_node *n = &w->nodes[i];

		n->region = aligned_alloc(4096, w->region_len);
		REQUIRE(n->region);
		memset(n->region, 0, w->region_len);
		REQUIRE(node_format(n->region, w->region_len, &w->env) == 0);
		REQUIRE(node_open(n->region, w->region_len, &w->env, &n->node) == 0);
	}
}

struct world *
world_open(const char *backend, unsigned nodes_n, uint64_t region_len, uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	struct far_sim_opts so = { .seed = seed, .nodes_n = nodes_n, .region_len = region_len };
	struct far_loop_opts opts = { .seed = seed };

	REQUIRE(w);
	w->nodes_n = nodes_n;
	w->region_len = region_len;
	far_rng_seed(&w->rng, seed);
	if (strcmp(backend, "sim") == 0) {
		REQUIRE(far_sim_open(&so, &w->sim) == 0);
		opts.clock = far_sim_clock(w->sim);
	} else if (strcmp(backend, "tcp") == 0) {
		w->agents = agents_open(&(struct agents_opts){ .nodes_n = nodes_n, .region_len = region_len });
	} else {
		world_open_shm(w);
		opts.clock = (struct far_clock){ world_now, world_idle, w };
	}
	REQUIRE(far_loop_open(&opts, &w->loop) == 0);
	return w;
}

struct far_loop *
world_loop(struct world *w)
{
	return w->loop;
}

static int
world_connect_shm(struct world *w, struct far_fabric **out)
{
	struct shm_memory memory[FAR_NODES_MAX];

	for (unsigned i = 0; i < w->nodes_n; i++) {
		struct world_link *l = &w->links[w->clients_n][i];

		*l = (struct world_link){ .node = &w->nodes[i] };
		memory[i] = (struct shm_memory){ w->nodes[i].region, w->region_len, world_call, l };
	}
	return shm_connect_memory(memory, w->nodes_n, w->loop, NULL, out);
}

struct far_fabric *
world_connect(struct world *w)
{
	struct far_fabric **out = &w->client[w->clients_n];

	REQUIRE(w->clients_n < WORLD_CLIENTS);
	if (w->agents)
		REQUIRE(far_fabric_open(agents_uri(w->agents), w->loop, NULL, out) == 0);
	else
		REQUIRE((w->sim ? far_sim_connect(w->sim, w->loop, NULL, out) : world_connect_shm(w, out)) == 0);
	w->clients_n++;
	return *out;
}

char *
world_region(struct world *w, unsigned node)
{
	if (w->agents)
		return agents_region(w->agents, node);
	return w->sim ? far_sim_region(w->sim, node) : w->nodes[node].region;
}

void
world_node_down(struct world *w, unsigned node)
{
	REQUIRE(w->sim);
	far_sim_node_down(w->sim, node);
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
	while (w->clients_n)
		far_fabric_close(w->client[--w->clients_n]);
	far_loop_close(w->loop);
	far_sim_close(w->sim);
	if (w->agents)
		agents_close(w->agents);
	for (unsigned i = 0; i < w->nodes_n; i++) {
		node_close(w->nodes[i].node);
		free(w->nodes[i].region);
	}
	free(w);
}
