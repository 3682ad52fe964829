/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim.pml -- when a block that was unlinked may be used again (M1, M2; E1 to E4 of epoch.c).
 *
 * A slot points to one of the blocks of session 1, whose operations swing it to another block and retire the old one.
 * Session 0 looks: it takes the address from the slot or from its cache, and READs the block. Each session has a
 * fiber for operations and one for maintenance, which share era, limbo and cache as in the code. With FENCE, session 1
 * fences session 0 at any moment, which also stands for its death: no verb of it arrives after that.
 *
 * `life` counts what was ever published. The address that a look has got means one of them: its block must hold just
 * that when it is READ, and a CAS that expects it must not meet another one (ABA).
 *
 * -DLOOKS=.., -DSWINGS=..: how many operations; -DEPOCHS=..: rounds go on until that epoch. -DLOOKER=1: it is session 1
 * that looks, the owner of the blocks, beside its other fiber. -DJOIN: session 0 joins meanwhile.
 *
 * Wrong variants: NO_GRACE STAMP_LATE_ENTRIES NO_FIRST_DRAIN NO_SECOND_DRAIN NO_REFRESH FLOOR_INCLUDED SKIP_SILENT;
 * with JOIN LOOK_BEFORE_JOIN.
 */

#ifndef LOOKS
#define LOOKS 2
#endif
#ifndef SWINGS
#define SWINGS 2
#endif
#ifndef EPOCHS
#define EPOCHS 5
#endif
#ifndef LOOKER
#define LOOKER 0
#endif
#define BLOCKS 2

/* Home node: the pool's epoch, the two session lines (255: not there). */
byte epoch = 1, line[2] = 1;
bool fenced;

/* The slot: address, and what that means; the blocks' bytes. */
byte slot, slot_life, bytes[BLOCKS], life;

/* Session 1's blocks. */
#define FREE 0
#define USED 1
#define LIMBO 2  /* not stamped */
#define MARKED 3 /* was in limbo when the round began */
#define STAMPED 4
byte state[BLOCKS], stamp[BLOCKS];

/* Eras of both sessions; the looker's cache. */
byte era[2], inside[4];
#define NONE 255
byte cache = NONE, cache_life;

#ifdef FENCE
#define VERB(s) if :: (s) == 0 && fenced -> goto dead :: else fi
#else
#define VERB(s) skip
#endif
#define OLD(s) (era[s] & 1)
#define INSIDE(s, parity) inside[(s) * 2 + (parity)]

inline enter(s)
{
	mine = era[s] & 1;
	INSIDE(s, mine)++
}

inline leave(s)
{
	INSIDE(s, mine)--
}

/* pool_drain() */
inline drain(s)
{
	atomic {
		old = era[s] & 1;
		/* A new era starts only when the last but one is empty. */
		assert(INSIDE(s, 1 - old) == 0);
		era[s] = 1 - old
	};
	atomic { INSIDE(s, old) == 0 || ((s) == 0 && fenced); old = 0 }
}

/* Operations that look. */
proctype looker()
{
	byte n, at = NONE, means;
	bit mine;

	do
	:: n < LOOKS ->
		/* From the cache, or from the slot. */
		if
		:: atomic { cache != NONE; enter(LOOKER); at = cache; means = cache_life }
		:: atomic { enter(LOOKER); VERB(LOOKER); at = slot; means = slot_life }
		fi;
		/* The block, and with it the answer. */
		atomic { VERB(LOOKER); assert(bytes[at] == means) };
		/* A CAS that expects the address: it fails, or meets what was READ. */
		atomic { VERB(LOOKER); assert(slot != at || slot_life == means) };
		atomic { cache = at; cache_life = means; at = NONE; means = 0; leave(LOOKER); n++ }
	:: n == LOOKS -> break
	od;
dead:
	atomic { n = 0; at = NONE; means = 0; mine = 0 }
}

/* Operations of session 1. */
proctype swinger()
{
	byte n, at, means, b = NONE;
	bit mine;

	do
	:: n < SWINGS ->
		/* Allocates and fills a block that nobody else can see yet. */
		atomic {
			if
			:: state[0] == FREE -> b = 0
			:: state[1] == FREE -> b = 1
			:: epoch >= EPOCHS -> goto dead
			fi;
			enter(1);
			state[b] = USED
		};
		bytes[b] = life + 1;
		atomic { at = slot; means = slot_life };
		atomic {
			assert(slot == at && slot_life == means);
			life++;
			slot = b;
			slot_life = life;
			assert(bytes[b] == life)
		};
		/* Its CAS unlinked the old one: it retires it (M3). */
		atomic {
#ifdef NO_GRACE
			state[at] = FREE;
#else
			state[at] = LIMBO;
#endif
			leave(1);
			at = 0; means = 0; b = NONE;
			n++
		}
	:: n == SWINGS -> break
	od;
dead:
	b = NONE
}

inline mark(b)
{
	if
	:: state[b] == LIMBO -> state[b] = MARKED
	:: else
	fi
}

inline stamp_it(b)
{
	if
	:: state[b] == MARKED -> state[b] = STAMPED; stamp[b] = e
#ifdef STAMP_LATE_ENTRIES
	:: state[b] == LIMBO -> state[b] = STAMPED; stamp[b] = e
#endif
	:: else
	fi
}

#ifdef FLOOR_INCLUDED
#define PAST(b) (stamp[b] <= floor)
#else
#define PAST(b) (stamp[b] < floor)
#endif
inline mature(b)
{
	if
	:: state[b] == STAMPED && PAST(b) -> state[b] = FREE; stamp[b] = 0
	:: else
	fi
}

/* pool_round() */
proctype maintenance(bit s; byte announced)
{
	byte e, others, floor;
	bit old;

	do
	:: e < EPOCHS ->
		/* 1. READ the epoch, then the lines; stamp what was in limbo when the round began. */
		atomic {
			if
			:: s == 1 -> mark(0); mark(1)
			:: else
			fi
		};
		atomic { VERB(s); e = epoch };
		atomic {
			VERB(s);
			others = line[1 - s];
#ifdef SKIP_SILENT
			if
			:: s == 1 -> others = 255
			:: s == 1
			:: s == 0
			fi;
#endif
			if
			:: s == 1 -> stamp_it(0); stamp_it(1)
			:: else
			fi
		};
		/* 3. Everyone here? On to the next. */
		if
		:: announced == e && others >= e ->
			atomic {
				VERB(s);
				if
				:: epoch == e -> epoch = e + 1; e = e + 1
				:: else -> e = epoch
				fi
			}
		:: else
		fi;
		/* 4. Announce it (E1). */
		if
		:: e > announced ->
#ifndef NO_FIRST_DRAIN
			drain(s);
#endif
#ifndef NO_REFRESH
			if
			:: s == LOOKER ->
				atomic {
					VERB(s);
					if
					:: cache != NONE && (cache != slot || cache_life != slot_life) -> cache = NONE; cache_life = 0
					:: else
					fi
				}
			:: else
			fi;
#endif
#ifndef NO_SECOND_DRAIN
			drain(s);
#endif
			atomic {
				VERB(s);
				line[s] = e;
				announced = e
			}
		:: else
		fi;
		/* 5. What is past grace. */
		atomic {
			floor = (others < announced -> others : announced);
			if
			:: s == 1 -> mature(0); mature(1)
			:: else
			fi;
			others = 0; floor = 0; old = 0
		}
	:: e >= EPOCHS -> break
	od;
dead:
	atomic { e = 0; others = 0; floor = 0; announced = 0; old = 0 }
}

#ifdef FENCE
/* The line is zeroed only after the session was cut off. */
proctype fencer()
{
	atomic { fenced = true; line[0] = 255 }
}
#endif

#ifdef JOIN
/* pool_join_nodes(): the node notes the epoch and then the serial, the client READs the epoch and announces it. */
proctype joiner()
{
	byte e;

#ifdef LOOK_BEFORE_JOIN
	run looker();
#endif
	e = epoch;
	line[0] = e;
	e = epoch;
	atomic {
		line[0] = e;
#ifndef LOOK_BEFORE_JOIN
		run looker();
#endif
		run maintenance(0, e);
		e = 0
	}
}
#endif

init
{
	atomic {
		life = 1;
		slot_life = 1;
		bytes[0] = 1;
		state[0] = USED;
		run swinger();
		run maintenance(1, 1);
#ifdef JOIN
		line[0] = 255;
		run joiner();
#else
		run looker();
		run maintenance(0, 1);
#endif
#ifdef FENCE
		run fencer()
#endif
	}
}
