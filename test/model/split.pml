/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.pml -- a subtable P is split while clients with old and new directory caches work on two of its keys.
 *
 * P and each child have two slots, in which either key may lie. Key 0 stays (low child), key 1 moves (high child). The
 * first splitter may be slow; the taker fences it at a moment of its choice, which also stands for its death there.
 *
 * One step per verb, one per word of a READ, in either order. `cur` is what a key is worth, changed in the very step
 * of the CAS that changes it; `seen` collects what it was worth while an operation ran. So an operation that changes
 * something is checked at its CAS, and one that only looks, by `seen`: together that is linearizability.
 *
 * -DTAKER: there is a taker. -DDOUBLE: in place of client 1, another client doubles the directory.
 * -DOPS0=.. -DOPS1=..: what the clients choose from: 1 get, 2 insert, 4 update, 8 delete, added up.
 *
 * Wrong variants: NO_REREAD NO_FREEZE SKIP_EMPTY EARLY_DIR NO_FATE; with TAKER LEASE_IS_FENCE FAA_AGAIN HIGH_WITH_FATE;
 * with DOUBLE COPY_UNFROZEN FROZEN_IS_DONE SWITCH_BY_WRITE.
 */

#ifndef OPS0
#define OPS0 15
#endif
#ifndef OPS1
#define OPS1 15
#endif
#define GET 1
#define INSERT 2
#define UPDATE 4
#define DELETE 8
#ifndef TRIES
#define TRIES 1
#endif

/* Slot word as in layout.h: value 2 | key 1 | frozen | tentative, in this order, so that a second FAA carries. */
#define F 8
#define T 16
#define WORD(k, v) ((k) << 2 | (v))
#define BODY(w) ((w) & 7)
#define VALUE(w) ((w) & 3)
#define IS(w, k) (VALUE(w) != 0 && (((w) >> 2) & 1) == (k))
#define LIVE(w) (VALUE(w) != 0 && !((w) & T))

/* Subtables: 0 is P, 1 and 2 are the splitter's children, 3 and 4 the taker's. */
byte slot[10];
#define SLOT(s, i) slot[(s) * 2 + (i)]

/* Fate of P, and the word beside it. */
#define CLAIMED 1 /* by the splitter; CLAIMED + 1: by the taker */
#define DECIDED 3 /* children 1, 2; DECIDED + 1: children 3, 4 */
#define RETIRED 5
#define LOW(f) (((f) == DECIDED || (f) == RETIRED) -> 1 : 3)
byte fate, high;

/* The directory: words 0 and 1, with DOUBLE a second one at 2 to 5. A word is a subtable; depth 0 is P alone. */
#define DF 8
byte dir[6];
bit root;
bool fenced;

/* Ghosts. */
byte cur[2];
byte seen[2];
byte opkey[2] = 2;

inline ghost(k, v)
{
	cur[k] = v;
	seen[0] = (opkey[0] == k -> seen[0] | (1 << (v)) : seen[0]);
	seen[1] = (opkey[1] == k -> seen[1] | (1 << (v)) : seen[1])
}

/* READ of both slots: the words in either order. */
inline look(s)
{
	if
	:: w0 = SLOT(s, 0);
	   w1 = SLOT(s, 1)
	:: w1 = SLOT(s, 1);
	   w0 = SLOT(s, 0)
	fi
}

/* race_follow(): the children of P, once its fate was READ as decided. */
inline follow()
{
#ifdef HIGH_WITH_FATE
	do
	:: f = high;
	   if
	   :: fate >= DECIDED -> break
	   :: else
	   fi
	od;
	sub = (k -> f : LOW(fate));
#else
	fate >= DECIDED;
	sub = (k -> high : LOW(fate));
#endif
	f = 0
}

proctype client(byte me; byte ops)
{
	byte sub, w0, w1, f, op, at, tries;
	bit k;

	/* The cache names P, or it is what the directory says now. */
	atomic {
		if
		:: ops & GET -> op = GET
		:: ops & INSERT -> op = INSERT
		:: ops & UPDATE -> op = UPDATE
		:: ops & DELETE -> op = DELETE
		fi;
		if
		:: k = 1
		:: me == 0 -> k = 0
		fi;
		opkey[me] = k;
		seen[me] = 1 << cur[k];
		if
		:: sub = 0
		:: dir[root * 2 + k] != 0 -> sub = dir[root * 2 + k] & ~DF
		fi;
		goto lookup
	};

lookup:
	look(sub);
	if
	:: op == GET -> goto get
	:: op != GET && ((w0 | w1) & F) -> goto wait
	:: op != GET && !((w0 | w1) & F)
	fi;
	if
	:: IS(w0, k) && LIVE(w0) -> at = 0
	:: !(IS(w0, k) && LIVE(w0)) && IS(w1, k) && LIVE(w1) -> at = 1
	:: else -> goto missing
	fi;

	/* The key is there. */
	atomic {
		if
		:: op == INSERT -> assert(seen[me] & 14); goto done
		:: else
		fi
	};
	atomic {
		if
		:: SLOT(sub, at) == (at -> w1 : w0) ->
			assert(cur[k] == VALUE(SLOT(sub, at)));
			if
			:: op == UPDATE -> SLOT(sub, at) = WORD(k, me + 1); ghost(k, me + 1)
			:: else -> SLOT(sub, at) = 0; ghost(k, 0)
			fi;
			goto done
		:: else -> goto again
		fi
	};

missing:
	atomic {
		if
		:: op != INSERT -> assert(seen[me] & 1); goto done
		:: op == INSERT && w0 == 0 -> at = 0
		:: op == INSERT && w1 == 0 -> at = 1
		:: op == INSERT && w0 != 0 && w1 != 0 -> goto done /* full */
		fi
	};
	/* CAS empty -> tentative, and READ again behind it (R2). */
	atomic {
		if
		:: SLOT(sub, at) == 0 -> SLOT(sub, at) = T | WORD(k, me + 1)
		:: else -> goto again
		fi
	};
#ifndef NO_REREAD
	look(sub);
	if
	:: (w0 | w1) & F -> goto withdraw
	:: else
	fi;
	/* A rival's slot: a live one wins, a tentative one is removed, or we stand back. */
	f = (at -> w0 : w1);
	if
	:: IS(f, k) && LIVE(f) -> op = 0; goto withdraw
	:: IS(f, k) && !LIVE(f) -> goto withdraw
	:: IS(f, k) && !LIVE(f) ->
		atomic {
			if
			:: SLOT(sub, 1 - at) == f -> SLOT(sub, 1 - at) = 0
			:: else -> goto withdraw
			fi
		}
	:: !IS(f, k)
	fi;
	f = 0;
#endif
	/* CAS tentative -> live: the linearization point. */
	atomic {
		if
		:: SLOT(sub, at) == (T | WORD(k, me + 1)) ->
			SLOT(sub, at) = WORD(k, me + 1);
			assert(cur[k] == 0);
			ghost(k, me + 1);
			goto done
		:: else -> goto again
		fi
	};

withdraw:
	atomic {
		f = 0;
		if
		:: SLOT(sub, at) == (T | WORD(k, me + 1)) -> SLOT(sub, at) = 0
		:: else
		fi;
		if
		:: op == 0 -> assert(seen[me] & 14); goto done
		:: else -> goto again
		fi
	};

wait:
	follow();
	atomic { w0 = 0; w1 = 0; goto lookup };
again:
	atomic {
		w0 = 0; w1 = 0; at = 0; tries++;
		if
		:: tries > TRIES -> goto done
		:: else -> goto lookup
		fi
	};

get:
	/* A frozen word counts only while the fate is not decided (R4). */
	f = ((w0 | w1) & F && sub == 0 -> fate : 0);
#ifndef NO_FATE
	if
	:: f >= DECIDED -> f = 0; goto wait
	:: else
	fi;
#endif
	atomic {
		f = (IS(w0, k) && LIVE(w0) -> VALUE(w0) : (IS(w1, k) && LIVE(w1) -> VALUE(w1) : 0));
		assert(seen[me] & (1 << f))
	};
done:
	atomic { opkey[me] = 2; seen[me] = 0; sub = 0; w0 = 0; w1 = 0; f = 0; op = 0; at = 0; tries = 0; k = 0 }
}

/* No verb of a fenced client takes effect. */
#define FENCED(mine) if :: (mine) && fenced -> goto dead :: else fi

/* WRITE one child: the live words of its side, thawed. */
inline build(child, side)
{
	SLOT(child, 0) = (LIVE(w0) && IS(w0, side) -> BODY(w0) : 0);
	SLOT(child, 1) = (LIVE(w1) && IS(w1, side) -> BODY(w1) : 0)
}

/* A directory word follows the fate. `frozen`: it must be done in the next directory (D2). */
inline switch(i, child)
{
#ifdef SWITCH_BY_WRITE
	dir[i] = child
#else
	if
	:: dir[i] == 0 -> dir[i] = child
#ifndef FROZEN_IS_DONE
	:: dir[i] == DF -> frozen = true
#endif
	:: else
	fi
#endif
}

/* From here on no word may lead to P: the winner of this CAS retires it. */
inline retire(mine)
{
	atomic {
		FENCED(mine);
		if
		:: fate == DECIDED || fate == DECIDED + 1 ->
			fate = fate + 2;
			assert((dir[root * 2] & 7) != 0 && (dir[root * 2 + 1] & 7) != 0);
			assert(root == 0 || ((dir[4] & 7) != 0 && (dir[5] & 7) != 0))
		:: else
		fi
	}
}

#ifndef DOUBLE
/* No client reads both words in one operation: so both switches are one step. */
inline finish(mine, a, b)
{
	atomic { FENCED(mine); switch(0, a); switch(1, b) };
	retire(mine)
}
#else
/* race_switch(): the words of the root that we know, and again when one was frozen or the root changed meanwhile. */
inline finish(mine, a, b)
{
	do
	:: atomic { FENCED(mine); frozen = false; switch(at, a) };
	   atomic { FENCED(mine); switch(at + 1, b) };
	   if
	   :: at == 2 ->
		atomic { FENCED(mine); switch(4, a) };
		atomic { FENCED(mine); switch(5, b) }
	   :: else
	   fi;
	   if
	   :: frozen -> root == 1; at = 2 /* waits for the lock, or takes it over: race_double() */
	   :: !frozen && root * 2 == at -> break
	   :: !frozen && root * 2 != at -> at = root * 2
	   fi
	od;
	retire(mine)
}
#endif

proctype splitter()
{
	byte w0, w1, at;
	bool frozen;

	atomic { FENCED(1); fate == 0; fate = CLAIMED };
#ifdef EARLY_DIR
	atomic { FENCED(1); dir[0] = 1; dir[1] = 2 };
#endif
#ifdef NO_FREEZE
	w0 = SLOT(0, 0);
	w1 = SLOT(0, 1);
#else
#ifdef SKIP_EMPTY
	w0 = SLOT(0, 0);
	w1 = SLOT(0, 1);
	atomic { FENCED(1); if :: w0 != 0 -> w0 = SLOT(0, 0); SLOT(0, 0) = w0 + F :: else fi };
	atomic { FENCED(1); if :: w1 != 0 -> w1 = SLOT(0, 1); SLOT(0, 1) = w1 + F :: else fi };
#else
	atomic { FENCED(1); w0 = SLOT(0, 0); SLOT(0, 0) = w0 + F };
	atomic { FENCED(1); w1 = SLOT(0, 1); SLOT(0, 1) = w1 + F };
#endif
#endif
	atomic { FENCED(1); build(1, 0); build(2, 1); high = 2 };
	/* The only moment at which the children become current (R4). */
	atomic {
		FENCED(1);
		if
		:: fate == CLAIMED -> fate = DECIDED
		:: else -> goto dead
		fi
	};
	finish(1, 1, 2);
dead:
	w0 = 0;
	w1 = 0
}

/* One word of race_freeze_again(). */
inline freeze(i, w)
{
#ifdef FAA_AGAIN
	atomic { w = SLOT(0, i); SLOT(0, i) = w + F };
#else
	w = SLOT(0, i);
	do
	:: w & F -> break
	:: atomic {
		!(w & F);
		if
		:: SLOT(0, i) == w -> SLOT(0, i) = w | F; w = w | F
		:: else -> w = SLOT(0, i)
		fi
	   }
	od
#endif
}

proctype taker()
{
	byte w0, w1, at;
	bool frozen;

	fate != 0;
	/* FENCE: acknowledged, so no verb of the splitter lands any more. */
	atomic {
#ifndef LEASE_IS_FENCE
		fenced = true;
#endif
		if
		:: fate == CLAIMED
		:: fate == DECIDED -> goto rest
		:: fate == RETIRED -> goto dead
		fi
	};
	atomic {
		if
		:: fate == CLAIMED -> fate = CLAIMED + 1
		:: else -> goto dead
		fi
	};
	freeze(0, w0);
	freeze(1, w1);
	atomic { build(3, 0); build(4, 1); high = 4 };
	atomic {
		if
		:: fate == CLAIMED + 1 -> fate = DECIDED + 1
		:: else -> goto dead
		fi
	};
	finish(0, 3, 4);
	goto dead;
rest:
	/* race_finish(): what is left of a decided split. */
	finish(0, 1, 2);
dead:
	at = 0
}

#ifdef DOUBLE
/* race_grow_dir(): freeze every word by CAS, WRITE the copy, CAS the root. */
inline freeze_word(i, w)
{
	w = dir[i];
#ifndef COPY_UNFROZEN
	do
	:: w & DF -> break
	:: atomic {
		!(w & DF);
		if
		:: dir[i] == w -> dir[i] = w | DF; w = w | DF
		:: else -> w = dir[i]
		fi
	   }
	od
#endif
}

proctype doubler()
{
	byte a, b;

	freeze_word(0, a);
	freeze_word(1, b);
	atomic { dir[2] = a & ~DF; dir[4] = a & ~DF; dir[3] = b & ~DF; dir[5] = b & ~DF };
	root = 1
}
#endif

/* When all is quiet: each key once, where the fate says, and what it is worth. */
inline find(k)
{
	at = (fate < DECIDED -> 0 : k + LOW(fate));
	found = (IS(SLOT(at, 0), k) && LIVE(SLOT(at, 0)) -> VALUE(SLOT(at, 0)) : 0) +
		(IS(SLOT(at, 1), k) && LIVE(SLOT(at, 1)) -> VALUE(SLOT(at, 1)) : 0)
}

init
{
	byte at, found;

	atomic {
		if
		:: true
		:: SLOT(0, 0) = WORD(0, 3); cur[0] = 3
		:: SLOT(0, 1) = WORD(1, 3); cur[1] = 3
		:: SLOT(0, 0) = WORD(1, 3); SLOT(0, 1) = WORD(0, 3); cur[0] = 3; cur[1] = 3
		fi;
		run client(0, OPS0);
#ifdef DOUBLE
		run doubler();
#else
		run client(1, OPS1);
#endif
#ifdef TAKER
		run taker();
#endif
		run splitter()
	};
	timeout;
	assert(_nr_pr == 1);
	assert(fate == RETIRED || fate == RETIRED + 1);
	find(0);
	assert(found == cur[0]);
	find(1);
	assert(found == cur[1])
}
