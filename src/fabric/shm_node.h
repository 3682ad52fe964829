/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_node.h -- a memory node: one region in shared memory and its control endpoint, for clients on this machine, on
 * others, or both.
 *
 * Clients on this machine map the region, so nothing but the end of their process takes it from them. The node
 * therefore holds a pidfd of each from its connect on: FENCE kills the process and is answered when it has ended. For
 * clients on other machines an agent does what they ask (tcp_agent.h): FENCE ends the connection.
 */
#ifndef FAR_FABRIC_SHM_NODE_H
#define FAR_FABRIC_SHM_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct shm_node;

/* Why something failed, in words that name the file or process. */
struct shm_why {
	char text[512];
};

enum { SHM_URI_MAX = 320 };

struct shm_node_opts {
	const char *path; /* of the socket, without "shm:"; NULL: clients come by `listen` only */
	const char *file; /* keeps the region, over restarts too; NULL: in memory, gone with the node */
	uint64_t size;    /* bytes, rounded up to 4 KiB (from 4 MiB on to 2 MiB); 0: as the existing file has */
	bool child;       /* ends with the parent process, and not by SIGINT */
	FILE *log;        /* gets a line for each client that is killed or cut off; outlives the node; NULL: nobody is
	                   * told */
	const char *listen;    /* tcp://HOST:PORT[?key=FILE] for clients on other machines; NULL: nobody */
	unsigned spin_us;      /* `listen`: microseconds of polling after the last request, before it sleeps */
	char *listens;         /* SHM_URI_MAX bytes for shm_node_fork(): receive shm_node_uri() of the child; or NULL */
	uint64_t weakness;     /* `listen`, for tests: 0, or a seed for being as weakly ordered as hardware may be */
};

/*
 * Makes or reopens the region and listens at `path`. Blocks SIGTERM and SIGINT in the calling thread until
 * shm_node_close(): shm_node_serve() takes them. A file keeps its contents; clients that are left over from a
 * node that was killed, and still map it, are killed before it is opened. On error *out is untouched and `why` tells
 * more: -FAR_EINVAL, -FAR_EEXIST (another node serves that socket or file), -FAR_EFORMAT (another format version),
 * -FAR_ECORRUPT (truncated), -FAR_EACCESS (the file's mode or owner; a process that may not be killed), -FAR_EIO,
 * -FAR_ENOMEM.
 */
int shm_node_open(const struct shm_node_opts *opts, struct shm_node **out, struct shm_why *why);

/* Serves until SIGTERM or SIGINT: 0. Otherwise `why` tells more: -FAR_EIO; -FAR_ECORRUPT when somebody cut the file.
 * Who touches the region between the cut and that gets a bus error, here and in the clients. */
int shm_node_serve(struct shm_node *n, struct shm_why *why);

/* Removes the socket, frees everything. Clients that still run keep their mapping, the region keeps their sessions.
 * NULL is fine. */
void shm_node_close(struct shm_node *n);

/* Where it listens for clients on other machines, with the port that it got, or NULL. Valid until shm_node_close(). */
const char *shm_node_uri(const struct shm_node *n);

/* The region, and its length in bytes, rounded as above. */
void *shm_node_region(const struct shm_node *n);
uint64_t shm_node_size(const struct shm_node *n);

/* Forks a process that serves a node with `opts` and then removes the directory `dir` (NULL: none); returns when it
 * serves, with its *pid, which the caller waits for. 0, or -FAR_E as shm_node_open() and `why`: then it has ended. */
int shm_node_fork(const struct shm_node_opts *opts, const char *dir, pid_t *pid, struct shm_why *why);

/* A node as a child process, for tests and for programs that bring their own pool. */
struct shm_child {
	pid_t pid;
	char tcp_uri[32]; /* where it listens besides, with shm_node_spawn_tcp() */
	char dir[64]; /* private directory of the socket */
	char uri[96]; /* "shm:" and the socket's path */
};

/* Forks a node with a fresh region of `size` bytes; returns when it serves. It ends when the calling process does.
 * 0, or -FAR_E as shm_node_open() and `why`; then *out needs no shm_node_stop(). */
int shm_node_spawn(uint64_t size, struct shm_child *out, struct shm_why *why);

/* The same, and it listens at a free port of 127.0.0.1 besides. `weakness` as in struct shm_node_opts. */
int shm_node_spawn_tcp(uint64_t size, uint64_t weakness, struct shm_child *out, struct shm_why *why);

/* Adds the address of one node more to the URI of a pool, "" at first, of `len` bytes: the scheme stands once. */
void shm_uri_add(char *uri, size_t len, const char *node);

/* Ends it, waits for that, removes its directory. Does nothing when pid is 0. */
void shm_node_stop(struct shm_child *c);

#endif
