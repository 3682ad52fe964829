/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scavenge.pml -- memory of a dead client is found out to be free, while another client may be dying over it (V1 to V6
 * of scavenge.c, F1 of frees.c, D4 of the directory).
 *
 * A word names part X, whose owner is dead. Session 0 unlinks X (a finished split, say): CAS of the word, version + 1,
 * and then it tells by a bit, at the latest before it announces its next epoch. It may be fenced at any moment,
 * which also stands for its death there. Session 1 uses the word through a cache that it reads anew only when the
 * version grew. Session 2 has adopted X's chunk and scavenges it: once X is given out, its bytes are another's.
 *
 * A session's operations and its maintenance take turns here: the drains (reclaim.pml) see to it.
 *
 * -DEPOCHS=..: rounds go on until that epoch.
 *
 * Wrong variants: VERSION_KEPT NO_LAST_GRACE TELL_LATE FREE_TOLD SKIP_SILENT
 */

#ifndef EPOCHS
#define EPOCHS 7
#endif
#define X 1
#define Y 2

byte epoch = 1, line[3] = 1;
bool fenced;
byte word = X, version;
bool bit_set;
/* Ghost: X was given out. */
bool reused;

#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define VERB if :: fenced -> goto dead :: else fi

/* X is free. */
inline hand_out()
{
	assert(!reused && word != X);
	reused = true
}

/* The first half of pool_round(): READ epoch and lines, move the epoch when everyone is there. */
inline look_around(me, a, b)
{
	e = epoch;
	others = MIN(line[a], line[b]);
	atomic {
		if
		:: announced == e && others >= e && epoch == e -> epoch = e + 1; e = e + 1
		:: announced == e && others >= e && epoch != e -> e = epoch
		:: else
		fi
	}
}

proctype finisher()
{
	byte e, others, announced = 1;
	bool tell, unlinked;

	do
	:: e < EPOCHS && !unlinked ->
		/* race_finish_split() */
		atomic { VERB; word = Y; unlinked = true };
		atomic { VERB; version++ };
		tell = true
	:: e < EPOCHS ->
		atomic { VERB; e = epoch };
		atomic { VERB; others = MIN(line[1], line[2]) };
		atomic {
			VERB;
			if
			:: announced == e && others >= e && epoch == e -> epoch = e + 1; e = e + 1
			:: announced == e && others >= e && epoch != e -> e = epoch
			:: else
			fi
		};
#ifdef TELL_LATE
		atomic { VERB; line[0] = e };
#endif
		/* pool_announce(): what was unlinked is told before (F1). */
		if
		:: tell && e > announced -> atomic { VERB; assert(!reused); bit_set = true; tell = false }
		:: else
		fi;
		atomic { VERB; announced = e; line[0] = e; others = 0 }
	:: e >= EPOCHS -> break
	od;
dead:
	atomic { e = 0; others = 0; announced = 0; tell = false; unlinked = false }
}

proctype user()
{
	byte e, others, announced = 1, cache = X, known, now, at;

	do
	:: e < EPOCHS ->
		/* An operation: where the cache leads, the bytes are X's or the children's. */
		at = cache;
		assert(at != X || !reused);
		at = 0
	:: e < EPOCHS ->
		look_around(1, 0, 2);
		if
		:: e > announced ->
			/* race_refresh(): the version first (D4). */
			now = version;
			if
			:: now != known -> cache = word; known = now
			:: else
			fi;
			atomic { announced = e; line[1] = e }
		:: else
		fi;
		atomic { others = 0; now = 0 }
	:: e >= EPOCHS -> break
	od
}

/* Stages of the scavenger. */
#define TOLD 0
#define PROBE 1
#define GRACE 2
#define OVER 3 /* X is in use, in limbo, or given out */

proctype scavenger()
{
	byte e, others, announced = 1, floor, stage, stamp = 2, limbo;

	do
	:: e < EPOCHS ->
		look_around(2, 0, 1);
#ifdef SKIP_SILENT
		others = line[1];
#endif
		/* What was harvested before this round began is stamped, and later given out. */
		atomic {
			if
			:: limbo == 1 -> limbo = 2; stamp = e
			:: else
			fi;
			announced = e;
			line[2] = e;
			floor = MIN(others, announced);
			if
			:: limbo == 2 && stamp < floor -> limbo = 0; hand_out()
			:: else
			fi
		};
		if
#ifdef NO_FIRST_GRACE
		:: stage == TOLD ->
#else
		:: stage == TOLD && stamp < floor ->
#endif
			stage = PROBE
		:: stage == PROBE ->
			atomic {
				if
				:: bit_set -> bit_set = false; limbo = 1; stage = OVER
				:: else
				fi
			};
			if
			:: stage == PROBE && word == X -> stage = OVER
			:: stage == PROBE && word != X ->
#ifndef VERSION_KEPT
				version++;
#endif
				atomic { stamp = announced + 1; stage = GRACE }
			:: stage == OVER
			fi
#ifdef NO_LAST_GRACE
		:: stage == GRACE ->
#else
		:: stage == GRACE && stamp < floor ->
#endif
			/* Told meanwhile: then it takes the way of all that is told. */
			atomic {
				if
#ifndef FREE_TOLD
				:: bit_set -> bit_set = false; limbo = 1
#endif
				:: else -> hand_out()
				fi;
				stage = OVER
			}
		:: stage == OVER ->
			/* The usual harvest. */
			atomic {
				if
				:: bit_set && limbo == 0 -> assert(!reused); bit_set = false; limbo = 1
				:: else
				fi
			}
		:: else
		fi;
		atomic { others = 0; floor = 0 }
	:: e >= EPOCHS -> break
	od
}

proctype fencer()
{
	atomic { fenced = true; line[0] = 255 }
}

init
{
	atomic {
		run finisher();
		run user();
		run scavenger();
		run fencer()
	}
}
