/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h -- a world of memory nodes in one process and in virtual time. One seed = one run.
 *
 *	struct far_sim_opts o = { .seed = 7, .nodes_n = 2, .region_len = 4 << 20 };
 *
 *	far_sim_open(&o, &sim);
 *	far_loop_open(&(struct far_loop_opts){ .clock = far_sim_clock(sim), .seed = 7 }, &loop);
 *	far_sim_connect(sim, loop, NULL, &fabric);      once per client
 *	far_loop_spawn(loop, fabric, client, arg, 0);
 *	far_loop_run(loop);
 *
 * The chains of all clients that are in flight advance one 8-byte word at a time. Each step is one draw from the
 * world's own random source: whose chain, which of the operations that G3 leaves unordered, which of its words. So
 * every READ and WRITE is torn in random order, and a run depends on the seed and on the code under test only. What
 * clients compute between two waits takes no time.
 *
 * The nodes run the shipped code (node.h): a control request is one step.
 */
#ifndef FAR_FABRIC_SIM_H
#define FAR_FABRIC_SIM_H

#include <farside/fabric.h>

struct far_sim;

struct far_sim_opts {
	uint64_t seed;
	unsigned nodes_n;    /* 1 to FAR_NODES_MAX */
	uint64_t region_len; /* bytes per node */
	bool raw;            /* plain zeroed memory: not formatted, control requests fail */
};

/* How the world draws its steps. */
struct far_sim_policy {
	unsigned keep;       /* the same client moves on with probability 1 - 2^-keep; 0 = uniform */
	bool weak;           /* use all the freedom of G3 inside a chain; else operations take effect in order */
	bool calm;           /* chains take effect whole when they are posted: fast set-up */
	uint64_t step_ns;    /* virtual time per step, 0 = 100 */
	uint64_t steps_max;  /* then every connection is cut and far_sim_exhausted() tells; 0 = no limit */
};

enum far_sim_fate {
	FAR_SIM_KILL,        /* as far_sim_kill() */
	FAR_SIM_PAUSE,       /* as far_sim_pause() */
};

/* Formats the nodes. On error *out is untouched. -FAR_EINVAL, -FAR_ENOMEM. */
int far_sim_open(const struct far_sim_opts *opts, struct far_sim **out);

/* No connection is open. NULL is fine. */
void far_sim_close(struct far_sim *s);

/* Back to freshly formatted nodes at time 0, all up; far cheaper than opening a world. No connection is open.
 * The policy stays. -FAR_ENOMEM: close it. */
int far_sim_reset(struct far_sim *s, uint64_t seed);

void far_sim_set_policy(struct far_sim *s, const struct far_sim_policy *p);

/* For the loop that all clients share. A loop in which nothing can ever happen again aborts with "deadlock". */
struct far_clock far_sim_clock(struct far_sim *s);

/* Connects a client; all on one loop. Clients are numbered from 0 in the order of their connections. */
int far_sim_connect(struct far_sim *s, struct far_loop *l, const struct far_fabric_opts *opts,
		    struct far_fabric **out);

/* The client executes nothing any more: chains in flight are cut where they are, these and all later ones end with
 * -FAR_EFENCED. The nodes do not notice. */
void far_sim_kill(struct far_fabric *f);

/* The client's chains stand still for `ns` of virtual time; its lease does not. */
void far_sim_pause(struct far_fabric *f, uint64_t ns);

/* After `steps` (> 0) more steps of this client, `fate` strikes, between two words. One fuse per client. */
void far_sim_fuse(struct far_fabric *f, uint64_t steps, enum far_sim_fate fate, uint64_t ns);

/* The node's power fails. Chains in flight: -FAR_EUNSURE, or -FAR_ENODE when nothing of them happened; later ones:
 * -FAR_ENODE, also after it came back: clients must connect anew. */
void far_sim_node_down(struct far_sim *s, unsigned node);

/* It is back: empty with a new generation, or (`keep`) with its memory, its sessions fenced. */
int far_sim_node_up(struct far_sim *s, unsigned node, bool keep);

/* The node's memory, to look at and to spoil. far_sim_touch() tells that something wrote there. */
void *far_sim_region(struct far_sim *s, unsigned node);
void far_sim_touch(struct far_sim *s, unsigned node, uint64_t off, uint64_t len);

/* The node's own verification (node_check()). */
int far_sim_node_check(struct far_sim *s, unsigned node);

uint64_t far_sim_now(const struct far_sim *s);
uint64_t far_sim_steps(const struct far_sim *s);
uint64_t far_sim_verbs(const struct far_sim *s);
bool far_sim_exhausted(const struct far_sim *s);

/* Hash over all steps so far: who, what, where, which value (not what calm READs find). The same on every machine. */
uint64_t far_sim_hash(const struct far_sim *s);

/* The world's random source, for what surrounds it to draw from. */
uint64_t far_sim_rand(struct far_sim *s);

#endif
