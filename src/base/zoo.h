/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zoo.h -- deliberate mistakes, by which the simulator shows that it would find them (doc/zoo.md).
 *
 * Each is one that somebody could really make: it leaves out a step that looks needless, or trusts what only seems to
 * hold. A set of them, a bit for each, travels in the options of an index, a pool, a memory node or a simulated world.
 * Only what is compiled with -DFAR_ZOO, one test program, can be wrong: elsewhere far_zoo() is false at compile time,
 * and neither the mistake nor its name is in the object code.
 */
#ifndef FAR_ZOO_H
#define FAR_ZOO_H

#include <stdbool.h>
#include <stdint.h>

enum far_zoo {
	/* index/race: put.c */
	ZOO_INSERT_UNCHECKED,    /* the candidates are not looked at again behind the tentative CAS */
	ZOO_INSERT_LIVE_AT_ONCE, /* published first, taken back when the key was there already */
	ZOO_CONTEST_BLIND,       /* the second look ignores tentative slots */
	ZOO_RIVAL_WRONG_WORD,    /* the CAS that removes a rival expects our own word: it never succeeds */
	ZOO_RIVAL_FIRST_ONLY,    /* of several rivals only the first is removed */
	ZOO_FINAL_UNCHECKED,     /* a lost last CAS counts as success */
	ZOO_WITHDRAW_WRITTEN,    /* the own tentative slot is cleared by WRITE */
	ZOO_SWING_UNCHECKED,     /* a lost CAS of an update counts as success */
	ZOO_VERSION_ONCE,        /* the version condition is not looked at again after a lost CAS */
	ZOO_DELETE_FREES_FIRST,  /* the block is freed before the CAS that unlinks it */
	ZOO_MOVE_UNAWAITED,      /* a copy on another node is published while its WRITE is under way */
	ZOO_FROZEN_WRITTEN,      /* writers do not mind the frozen mark */
	/* index/race: get.c, view.c, walk.c */
	ZOO_GET_TENTATIVE,       /* readers take tentative slots for live ones */
	ZOO_GET_NO_FATE,         /* a frozen slot is believed without a look at the fate */
	ZOO_KEY_PREFIX,          /* keys are compared over the searcher's length */
	ZOO_SCAN_NO_FATE,        /* a scan believes frozen slots */
	ZOO_SCAN_SKIPS_FROZEN,   /* a scan leaves frozen slots to a later part */
	/* index/race: split.c, dir.c, fate.c, recover.c */
	ZOO_SPLIT_UNFROZEN,      /* slots are READ and copied, not frozen */
	ZOO_SPLIT_SKIPS_EMPTY,   /* empty slots are not frozen */
	ZOO_SPLIT_TENTATIVE,     /* tentative slots are copied, as live ones */
	ZOO_SPLIT_NAMED_FIRST,   /* the directory names the children before they are written */
	ZOO_PARENT_AT_ONCE,      /* the parent's memory is used again without grace */
	ZOO_PARENT_TWICE,        /* everybody who finishes a split frees the parent */
	ZOO_CHILD_LEAKED,        /* when the second child cannot be had, the first is forgotten */
	ZOO_TAKEOVER_FAA,        /* who takes a split over freezes by FAA, too */
	ZOO_TAKEOVER_IMPATIENT,  /* a split is taken over from a client that is only slow */
	ZOO_DOUBLE_UNFROZEN,     /* the directory is copied while its words may change */
	ZOO_DOUBLE_IMPATIENT,    /* the doubling lock is taken from a client that is only slow */
	/* index/common */
	ZOO_GATE_IN_FLIGHT,      /* an upsert is answered by one that was sent before it came */
	/* pool */
	ZOO_REUSE_AT_ONCE,       /* an unlinked block is used again without grace */
	ZOO_GRACE_SHORT,         /* ... when every session has announced the epoch of the unlink, not a later one */
	ZOO_NO_DRAIN,            /* an epoch is announced while operations begun before it go on */
	ZOO_NO_REFRESH,          /* an epoch is announced with the cached words of the one before */
	ZOO_SILENT_IGNORED,      /* epochs do not wait for a client whose lease is over, which is not fenced */
	ZOO_LEASE_IS_FENCE,      /* a client whose lease is over counts as gone */
	ZOO_FENCE_HOME_ONLY,     /* FENCE is sent to one node only */
	ZOO_HARVEST_AT_ONCE,     /* a block that another client freed is used again without grace */
	ZOO_HARVEST_WRITTEN,     /* found bits are cleared by WRITE of the whole word */
	ZOO_SCAVENGE_UNRECOVERED, /* a dead client's blocks are judged before its work is finished or undone */
	ZOO_SCAVENGE_NO_GRACE,   /* and freed while a live client may be about to tell that they are free */
	/* pool: the memory node */
	ZOO_FENCE_UNCUT,         /* FENCE is acknowledged before the client's connection is cut */
	ZOO_RANGE_REPEATED,      /* the next session of a line gets the same version numbers */
	ZOO_ORPHAN_TWICE,        /* an orphaned chunk stays on the list when it is granted */
	/* fabric/sim */
	ZOO_REPOSTED,            /* what was in flight when a connection broke is posted again on a new one */
	ZOO_BUGS,
};

#define ZOO_BIT(bug) (UINT64_C(1) << (bug))

#ifdef FAR_ZOO
#define ZOO_BUILT 1
/* Leaves the mistake's name in the object code at each place where it can be made. */
#define far_zoo(set, bug)                                                                          \
	({                                                                                         \
		__asm__ volatile("" : : "r"("zoo: " #bug));                                        \
		((set) & ZOO_BIT(bug)) != 0;                                                       \
	})
#else
#define ZOO_BUILT 0
/* Is this mistake to be made? No code is left of the question. */
#define far_zoo(set, bug) ((void)(set), (void)(bug), false)
#endif

#endif
