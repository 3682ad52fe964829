/* SPDX-License-Identifier: Apache-2.0 */
/*
 * insert.pml -- clients insert one key into one subtable, others update or delete it; one inserter may die.
 *
 * A key has four places: main and overflow slot of either bucket pair. Client 0 and client 1 insert or upsert; client 2
 * does what -DOPS2 says. The helper fences client 0 at a moment of its choice, which also stands for its death
 * there, and then decides whether client 0's block is in use, as a scavenger does.
 *
 * One step per verb, one per word of a READ, in rising or falling order. `cur` is what the key is worth, changed in the
 * very step of the CAS that changes it; `seen` collects what it was worth while an operation ran.
 *
 * -DOPS=..: what clients 0 and 1 choose from, -DOPS2=..: client 2, 0 = there is none: 1 get, 2 insert, 4 upsert,
 * 8 update, 16 delete, added up. -DHELPER: there is a helper. -DTWICE: client 2 does two operations.
 *
 * Wrong variants: NO_REREAD PUBLISH_UNDO IGNORE_TENTATIVE REMOVE_UNCHECKED UPDATE_BY_WRITE; with HELPER LEASE_IS_FENCE
 * HELPER_FINISHES.
 */

#ifndef OPS
#define OPS 6
#endif
#ifndef OPS2
#define OPS2 25
#endif
#ifndef TRIES
#define TRIES 1
#endif
#define GET 1
#define INSERT 2
#define UPSERT 4
#define UPDATE 8
#define DELETE 16

/* Slot word: whose block, 1 to 3 (3 at the start, 4 is client 2's); tentative. */
#define T 8
#define VALUE(w) ((w) & 7)
#define LIVE(w) ((w) != 0 && (w) < T)
byte slot[4];
bool fenced, freed;

/* Ghosts. */
byte cur, seen[3];
bool busy[3];

inline ghost(v)
{
	cur = v;
	seen[0] = seen[0] | (busy[0] -> 1 << (v) : 0);
	seen[1] = seen[1] | (busy[1] -> 1 << (v) : 0);
	seen[2] = seen[2] | (busy[2] -> 1 << (v) : 0)
}

/* READ of both pairs. */
inline look()
{
	if
	:: w[0] = slot[0]; w[1] = slot[1]; w[2] = slot[2]; w[3] = slot[3]
	:: w[3] = slot[3]; w[2] = slot[2]; w[1] = slot[1]; w[0] = slot[0]
	fi
}

/* The place of the first live slot in w, or 4. */
inline match()
{
	hit = (LIVE(w[0]) -> 0 : (LIVE(w[1]) -> 1 : (LIVE(w[2]) -> 2 : (LIVE(w[3]) -> 3 : 4))))
}

/* The first slot in w other than `at` that matters to an insert: a live one, else a tentative one, else 4. */
#ifdef IGNORE_TENTATIVE
#define RIVAL(i) (at != (i) && LIVE(w[i]))
#else
#define RIVAL(i) (at != (i) && w[i] != 0)
#endif
inline rival()
{
	hit = (RIVAL(0) -> 0 : (RIVAL(1) -> 1 : (RIVAL(2) -> 2 : (RIVAL(3) -> 3 : 4))))
}

/* How many slots besides ours hold the key's fingerprint. */
#define RIVALS (RIVAL(0) + RIVAL(1) + RIVAL(2) + RIVAL(3))

inline clear()
{
	w[0] = 0; w[1] = 0; w[2] = 0; w[3] = 0; hit = 0; at = 0
}

#ifdef LEASE_IS_FENCE
#define ALIVE skip
#elif defined(HELPER_FINISHES)
#define ALIVE skip
#else
/* No verb of a fenced client takes effect. */
#define ALIVE if :: me == 0 && fenced -> goto dead :: else fi
#endif
#define MINE (me == 2 -> 4 : me + 1)

inline verbs_of_an_operation()
{
	atomic {
		if
		:: ops & GET -> op = GET
		:: ops & INSERT -> op = INSERT
		:: ops & UPSERT -> op = UPSERT
		:: ops & UPDATE -> op = UPDATE
		:: ops & DELETE -> op = DELETE
		fi;
		busy[me] = true;
		seen[me] = 1 << cur
	};
lookup:
	look();
	atomic {
		match();
		if
		:: hit < 4 && op == GET -> assert(seen[me] & (1 << w[hit])); goto done
		:: hit < 4 && op == INSERT -> assert(seen[me] & ~1); goto done
		:: hit < 4 && op >= UPSERT -> goto swing
		:: hit == 4 && op != INSERT && op != UPSERT -> assert(seen[me] & 1); goto done
		:: hit == 4 && (op == INSERT || op == UPSERT) && w[0] == 0 -> at = 0
		:: hit == 4 && (op == INSERT || op == UPSERT) && w[0] != 0 && w[1] == 0 -> at = 1
		:: hit == 4 && (op == INSERT || op == UPSERT) && w[2] == 0 -> at = 2
		:: hit == 4 && (op == INSERT || op == UPSERT) && w[2] != 0 && w[3] == 0 -> at = 3
		:: else -> goto done /* full */
		fi
	};
#ifdef PUBLISH_UNDO
	/* As published: live at once, then all copies but the one at the lowest place are removed. */
	atomic {
		if
		:: slot[at] == 0 ->
			slot[at] = MINE;
			if
			:: cur == 0 -> ghost(MINE)
			:: else
			fi
		:: else -> goto again
		fi
	};
	look();
	match();
	if
	:: hit < at -> slot[at] = 0
	:: else
	fi;
	goto done;
#endif
	/* CAS empty -> tentative, and READ again behind it (R2). */
	atomic {
		ALIVE;
		assert(me != 0 || !freed);
		if
		:: slot[at] == 0 -> slot[at] = T | MINE
		:: else -> goto again
		fi
	};
#ifndef NO_REREAD
	look();
	/* race_contest() */
	atomic {
		rival();
		if
		:: hit == 4 -> goto publish
		:: hit < 4 && LIVE(w[hit]) ->
			if
			:: op == INSERT -> assert(seen[me] & ~1); op = 0; goto withdraw
			:: op == UPSERT -> goto withdraw
			fi
		:: hit < 4 && !LIVE(w[hit]) -> goto withdraw
		:: hit < 4 && !LIVE(w[hit])
		fi
	};
	/* Removes the rival, whose last CAS will fail; with more than one: looks at all again. */
	atomic {
		ALIVE;
		if
		:: slot[hit] == w[hit] -> slot[hit] = 0;
			if
			:: RIVALS > 1 -> goto withdraw
			:: else
			fi
#ifdef REMOVE_UNCHECKED
		:: else
#else
		:: else -> goto withdraw
#endif
		fi
	};
publish:
#endif
	/* CAS tentative -> live: the linearization point. */
	atomic {
		ALIVE;
		if
		:: slot[at] == (T | MINE) ->
			assert(me != 0 || !freed);
			assert(cur == 0);
			slot[at] = MINE;
			ghost(MINE);
			goto done
		:: else -> goto again
		fi
	};
withdraw:
	atomic {
		ALIVE;
		if
		:: slot[at] == (T | MINE) -> slot[at] = 0
		:: else
		fi;
		if
		:: op == 0 -> goto done
		:: else -> goto again
		fi
	};
swing:
	atomic {
		ALIVE;
		assert(me != 0 || !freed);
#ifdef UPDATE_BY_WRITE
		if
		:: op != DELETE -> assert(cur != 0); slot[hit] = MINE; ghost(MINE); goto done
		:: else
		fi;
#endif
		if
		:: slot[hit] == w[hit] ->
			assert(cur == w[hit]);
			if
			:: op == DELETE -> slot[hit] = 0; ghost(0)
			:: else -> slot[hit] = MINE; ghost(MINE)
			fi;
			goto done
		:: else -> goto again
		fi
	};
again:
	atomic {
		clear();
		tries++;
		if
		:: tries > TRIES -> goto done
		:: else -> goto lookup
		fi
	}
}

proctype client(byte me; byte ops)
{
	byte w[4], op, hit, at, tries, count;

begin:
	verbs_of_an_operation();
done:
	atomic {
		clear();
		op = 0; tries = 0; busy[me] = false; seen[me] = 0
	};
#ifdef TWICE
	if
	:: me == 2 && count == 0 -> count = 1; goto begin
	:: else
	fi;
#endif
dead:
	clear();
	busy[me] = false
}

#ifdef HELPER
/* race_reach() for client 0's block, after FENCE; then the block is free, unless a slot names it. */
proctype helper()
{
	byte w[4], hit;

	fenced = true;
	look();
	atomic {
		hit = (VALUE(w[0]) == 1 -> 0 : (VALUE(w[1]) == 1 -> 1 : (VALUE(w[2]) == 1 -> 2 : (VALUE(w[3]) == 1 -> 3 : 4))));
		if
#ifdef HELPER_FINISHES
		:: hit == 4 -> goto done
#else
		:: hit == 4 -> freed = true; goto done
#endif
		:: hit < 4 && LIVE(w[hit]) -> goto done
		:: else
		fi
	};
	/* Tentative: it will never be finished. */
	atomic {
		if
#ifdef HELPER_FINISHES
		:: slot[hit] == w[hit] -> assert(cur == 0); slot[hit] = 1; ghost(1)
#else
		:: slot[hit] == w[hit] -> slot[hit] = 0; freed = true
#endif
		:: else -> freed = (VALUE(slot[hit]) != 1)
		fi
	};
done:
	hit = 0
}
#endif

init
{
	byte i, n;

	atomic {
		if
		:: true
		:: slot[1] = 3; cur = 3
		fi;
		run client(0, OPS);
		run client(1, OPS);
#if OPS2
		run client(2, OPS2);
#endif
#ifdef HELPER
		run helper()
#endif
	};
	timeout;
	/* The key once, and what it is worth; nothing tentative; no free block in a slot (R1, R2). */
	atomic {
		assert(_nr_pr == 1);
		do
		:: i < 4 ->
			assert(slot[i] < T && (slot[i] == 0 || slot[i] == cur));
			assert(slot[i] != 1 || !freed);
			n = n + (slot[i] != 0);
			i++
		:: else -> break
		od;
		assert(n == (cur != 0))
	}
}
