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
 *
 * What else a network may do to a protocol happens only when it is asked for: whole lines or single words
 * (far_sim_policy.line), atomics that plain WRITEs cut into (.gap), late completions (.late), chains that stand still
 * (FAR_SIM_PARK), connections that break and leave work behind that lands much later (FAR_SIM_BREAK), or lands twice
 * (.repeat), clients that stand still or die, nodes that fail and come back. Each is counted in far_sim_faults.
 *
 * All that is for finding bugs. far_sim_time() makes the world predict performance instead: chains take the time that a
 * model of network cards gives them (nic.h), and operations take effect whole.
 */
#ifndef FAR_FABRIC_SIM_H
#define FAR_FABRIC_SIM_H

#include <farside/fabric.h>

struct far_sim;
struct nic_profile;

struct far_sim_opts {
	uint64_t seed;
	unsigned nodes_n;    /* 1 to FAR_NODES_MAX */
	uint64_t region_len; /* bytes per node */
	bool raw;            /* plain zeroed memory: not formatted, control requests fail */
};

/* How the world draws its steps. */
struct far_sim_policy {
	unsigned keep;       /* the same client moves on with probability 1 - 2^-keep; 0 = uniform */
	unsigned changes;    /* > 0: not so, but by priority. Clients get them at random, and so many times (and now
	                      * and then, that nobody starves) the first of them becomes the last. keep = 0 */
	uint64_t change_steps; /* these changes come within so many steps */
	bool weak;           /* use all the freedom of G3 inside a chain; else operations take effect in order */
	bool line;           /* 64 aligned bytes are read or written at once */
	bool relaxed;        /* WRITEs of a chain in any order, which G3 does not allow: for negative tests */
	bool gap;            /* an atomic is two steps: WRITEs between them are lost. Clients that connect now are told
	                      * that FAR_CAP_ATOMIC_GLOBAL does not hold */
	unsigned late;       /* one completion in so many comes late, 0 = none, */
	uint64_t late_ns;    /* by that much at most */
	unsigned repeat;     /* of one in so many chains that a broken connection or a dead client leaves behind,
	                      * 0 = none, the node does once more, later, the WRITEs that it has done */
	bool calm;           /* chains take effect whole when they are posted: fast set-up */
	uint64_t step_ns;    /* virtual time per step, 0 = 100 */
	uint64_t zoo;        /* mistakes to make (base/zoo.h), of nodes from the next reset on */
	uint64_t steps_max;  /* then every connection is cut and far_sim_exhausted() tells; 0 = no limit */
};

enum far_sim_fate {
	FAR_SIM_KILL,        /* as far_sim_kill(); with ns > 0 what is in flight may still land within that time */
	FAR_SIM_PAUSE,       /* as far_sim_pause() */
	FAR_SIM_PARK,        /* the chain that steps stands still for ns, the client's others go on */
	FAR_SIM_BREAK,       /* as far_sim_break() of the node where it steps */
};

/* Where inside one verb a fate strikes. A verb of one word has no middle: there it is FAR_SIM_BEFORE. */
enum far_sim_point {
	FAR_SIM_BEFORE,      /* nothing of it has happened */
	FAR_SIM_HALF,        /* half of its words have, any of them */
	FAR_SIM_AFTER,       /* all of it has happened, and its client does not know yet */
	FAR_SIM_POINTS,
};

/* How a node comes back. */
enum far_sim_return {
	FAR_SIM_EMPTY,       /* formatted anew, with another generation */
	FAR_SIM_KEPT,        /* with its memory; before that, as such a node does, it ends every client that had a
	                      * session there, which the other nodes notice */
	FAR_SIM_NEVER,
};

/* What befell a world since its last reset. */
struct far_sim_faults {
	uint64_t kills, pauses, parks, breaks, lates;
	uint64_t strays;     /* chains that a broken connection or a dead client left behind, */
	uint64_t landed;     /* of these: took effect after their client knew nothing of them any more, */
	uint64_t discarded;  /* or were stopped by a fence or with their node */
	uint64_t repeats;    /* WRITEs that took effect a second time */
	uint64_t fenced;     /* connections that a node was told to stop */
	uint64_t zombies;    /* of these: their client lived, and was refused afterwards */
	uint64_t unfenced;   /* words that a client changed at a node after its FENCE was acknowledged: never */
	uint64_t downs, ups_empty, ups_kept;
	uint64_t evicted;    /* clients that had a session at a node that came back with its memory */
	uint64_t refused;    /* grants */
	uint64_t invalid;    /* operations outside the region (G5), */
	uint64_t trespasses; /* or that change what is the node's or another session's: no shipped protocol posts any */
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

/* No node is allowed to stop this client: FENCE answers -FAR_EACCESS. */
void far_sim_protect(struct far_fabric *f);

/* The client's chains stand still for `ns` of virtual time; its lease does not. */
void far_sim_pause(struct far_fabric *f, uint64_t ns);

/* The queue pair to `node` fails. Of the chains in flight there, some part may have happened, and (`ns` > 0) the rest
 * of each may happen within that time, unless the node was told to stop this session before: -FAR_EUNSURE, or
 * -FAR_ENODE for those of which nothing can happen any more. Later chains there: -FAR_ENODE. To go on takes a new
 * connection. */
void far_sim_break(struct far_fabric *f, unsigned node, uint64_t ns);

/* After `steps` (> 0) more steps of this client, `fate` strikes, between two words. One fuse per client; UINT64_MAX
 * steps: none. */
void far_sim_fuse(struct far_fabric *f, uint64_t steps, enum far_sim_fate fate, uint64_t ns);

/* `fate` strikes at `point` of the verb whose number, among those of this client that have begun, is `verb`: 1 is its
 * first one. One aim per client; calm verbs are counted, too, but nothing strikes there; UINT64_MAX: none. */
void far_sim_aim(struct far_fabric *f, uint64_t verb, enum far_sim_point point, enum far_sim_fate fate, uint64_t ns);

/* At time `at` the client stops for `ns`, as by far_sim_pause(). One plan per client; UINT64_MAX: none. */
void far_sim_plan_pause(struct far_fabric *f, uint64_t at, uint64_t ns);

/* At time `at` the node fails, and is back `ns` later. One plan per node; UINT64_MAX: none, also not back. */
void far_sim_plan_node(struct far_sim *s, unsigned node, uint64_t at, uint64_t ns, enum far_sim_return how);

/* The k-th GRANT request from now on (1: the next) is refused as if the node's memory were all in use, and all later
 * ones too when `forever`. 0: none. */
void far_sim_refuse(struct far_sim *s, uint64_t k, bool forever);

/* The node's power fails. Chains in flight: -FAR_EUNSURE, or -FAR_ENODE when nothing of them happened; later ones:
 * -FAR_ENODE, also after it came back: clients must connect anew. */
void far_sim_node_down(struct far_sim *s, unsigned node);

/* It is back: empty with a new generation, or (`keep`) with its memory. Then the clients that had a session there were
 * stopped first, as node_open() wants it: they touch no node any more (-FAR_EFENCED, here -FAR_ENODE). */
int far_sim_node_up(struct far_sim *s, unsigned node, bool keep);

/* The node's memory, to look at and to spoil. far_sim_touch() tells that something wrote there. */
void *far_sim_region(struct far_sim *s, unsigned node);
void far_sim_touch(struct far_sim *s, unsigned node, uint64_t off, uint64_t len);

/* The node's own verification (node_check()). */
int far_sim_node_check(struct far_sim *s, unsigned node);

uint64_t far_sim_now(const struct far_sim *s);
uint64_t far_sim_steps(const struct far_sim *s);
uint64_t far_sim_verbs(const struct far_sim *s);
/* Verbs of this client that have begun. */
uint64_t far_sim_client_verbs(const struct far_fabric *f);
bool far_sim_exhausted(const struct far_sim *s);
const struct far_sim_faults *far_sim_faults(const struct far_sim *s);
/* Whether the node answers. */
bool far_sim_node_is_up(const struct far_sim *s, unsigned node);
/* One step, as it is told. */
struct far_sim_step {
	uint64_t now;
	unsigned client, node;
	enum far_op_code code;
	uint64_t off;        /* of the word */
	uint64_t value;      /* READ or written; of atomics what is there now; of a CALL its code */
	bool stray;          /* of a chain that its client knows nothing of any more */
};

/* Tells each step from now on, but for calm ones; NULL: no more. It changes nothing. */
void far_sim_tell(struct far_sim *s, void (*tell)(void *arg, const struct far_sim_step *step), void *arg);

/* Until when the faults that have struck so far last; a fault that does not last ends when it strikes. */
uint64_t far_sim_trouble_end(const struct far_sim *s);

/* Hash over all steps so far: who, what, where, which value (not what calm READs find). The same on every machine. */
uint64_t far_sim_hash(const struct far_sim *s);

/* The world's random source, for what surrounds it to draw from. */
uint64_t far_sim_rand(struct far_sim *s);

/* Performance mode ---------------------------------------------------------------------------------------- */

struct far_sim_timing {
	const struct nic_profile *profile; /* copied */
	unsigned machines;  /* network cards that clients share, 0 = 1 */
	unsigned queues;    /* queue pairs that clients share, see far_sim_place() */
	uint64_t footprint; /* tables stand for ones that are so many times larger: pages of the translation cache hold
	                     * that much less. 0 = 1 */
};

#define FAR_SIM_OWN_QUEUE UINT32_MAX

/* Turns performance mode on, or off (NULL), until the next far_sim_reset(). No connection is open. Of the policy only
 * `calm` is looked at; clients cannot be paused. -FAR_ENOMEM. */
int far_sim_time(struct far_sim *s, const struct far_sim_timing *t);

/* Which machine the client is a thread of (at first 0), and which shared queue pair it posts through (at first its
 * own). Nothing of it is in flight. */
void far_sim_place(struct far_fabric *f, unsigned machine, unsigned queue);

/* The client's thread computes for `ns`: what it posts next is so much later. */
void far_sim_spend(struct far_fabric *f, uint64_t ns);

#endif
