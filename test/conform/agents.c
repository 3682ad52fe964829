/* SPDX-License-Identifier: Apache-2.0 */
#include "conform/agents.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include <farside/fabric.h>

#include "fabric/shm_node.h"
#include "test.h"

struct agent {
	pthread_t thread;
	pthread_barrier_t ready;
	struct shm_node *node;
	const struct agents_opts *opts; /* until it is ready */
	unsigned index;
	bool ending;
};

struct agents {
	unsigned n;
	struct agent agent[FAR_NODES_MAX];
	char uri[FAR_NODES_MAX * SHM_URI_MAX];
};

static void *
agent_thread(void *arg)
{
	struct agent *a = arg;
	char uri[SHM_URI_MAX];
	struct shm_node_opts opts = {
		.size = a->opts->region_len,
		.listen = uri,
		.spin_us = 20,
		.weakness = a->opts->weakness ? a->opts->weakness + a->index : 0,
	};
	struct shm_why why = { "" };

	snprintf(uri, sizeof(uri), "tcp://127.0.0.1:0%s%s", a->opts->key ? "?key=" : "",
		 a->opts->key ? a->opts->key : "");
	if (shm_node_open(&opts, &a->node, &why) != 0) {
		printf("# %s\n", why.text);
		REQUIRE(false);
	}
	pthread_barrier_wait(&a->ready);
	/* Signals are blocked in this thread, and taken here. */
	CHECK_EQ(shm_node_serve(a->node, &why), 0);
	/* A sanitizer does not see that the signal comes after all that the others did with the node. */
	CHECK(__atomic_load_n(&a->ending, __ATOMIC_ACQUIRE));
	shm_node_close(a->node);
	return NULL;
}

struct agents *
agents_open(const struct agents_opts *opts)
{
	struct agents *all = calloc(1, sizeof(*all));

	REQUIRE(all && opts->nodes_n <= FAR_NODES_MAX);
	for (; all->n < opts->nodes_n; all->n++) {
		struct agent *a = &all->agent[all->n];

		a->opts = opts;
		a->index = all->n;
		REQUIRE(pthread_barrier_init(&a->ready, NULL, 2) == 0);
		REQUIRE(pthread_create(&a->thread, NULL, agent_thread, a) == 0);
		pthread_barrier_wait(&a->ready);
		shm_uri_add(all->uri, sizeof(all->uri), shm_node_uri(a->node));
	}
	if (opts->key)
		strcat(strcat(all->uri, "?key="), opts->key);
	return all;
}

void
agents_close(struct agents *all)
{
	for (unsigned i = 0; i < all->n; i++) {
		struct agent *a = &all->agent[i];

		__atomic_store_n(&a->ending, true, __ATOMIC_RELEASE);
		REQUIRE(pthread_kill(a->thread, SIGTERM) == 0 && pthread_join(a->thread, NULL) == 0);
		pthread_barrier_destroy(&a->ready);
	}
	free(all);
}

const char *
agents_uri(const struct agents *all)
{
	return all->uri;
}

unsigned
agents_port(const struct agents *all, unsigned node)
{
	return (unsigned)atoi(strrchr(shm_node_uri(all->agent[node].node), ':') + 1);
}

char *
agents_region(const struct agents *all, unsigned node)
{
	return shm_node_region(all->agent[node].node);
}
