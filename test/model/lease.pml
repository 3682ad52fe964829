/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.pml -- a client goes silent; others stop it and take over what it held (M4, S1 to S3).
 *
 * Node 0 is the home node with the session line, node 1 holds a lock word (a fate word or the doubling lock), a word that
 * only the lock's holder WRITEs, and a block of the client's own memory. The client, serial 1, may stand still before
 * any of its verbs takes effect, for as long as it likes, also before it joins node 1. Two others, serials 2 and 3, read
 * its line, take an unchanged word for a lease that ran out, and FENCE. A fifth party opens a session as soon as
 * the line is free.
 *
 * No clock: an unchanged word may mean that the lease ran out, whatever the time.
 *
 * After a node acknowledged FENCE no verb of the client takes effect there (I12): asserted where its verbs land. A lock
 * has one holder that can still act (I14): asserted where the lock is won. What the taker wrote stays.
 *
 * -DROUNDS=..: how often the client takes the lock.
 *
 * Wrong variants: LEASE_IS_FENCE HOME_FIRST HOME_ONLY ACK_BEFORE_CUT FORGET_UNKNOWN IGNORE_REFUSAL STOP_PER_NODE TAKE_UNCHECKED
 */

#ifndef ROUNDS
#define ROUNDS 2
#endif

/* Home node. */
byte line = 0, word;
/* What node 1 knows of the client: nothing, a connection, or that it is gone. */
#define UNKNOWN 0
#define JOINED 1
#define GONE 2
byte joined;
byte lock, guarded, block;
/* Its connection to a node is cut; the node said so; node 1 cannot stop it (quarantine). */
bool cut[2], acked[2], unstoppable;
/* To stop it at one node is to stop it at all: its process ends. Only then may a node refuse. */
bool process;

/* Ghosts: who believes to hold the lock. */
bool inside[4];

/* A verb of the client arrives at a node. */
#define LAND(n) if :: cut[n] -> goto dead :: else -> assert(!acked[n]) fi

proctype client()
{
	byte n;

	/* SESSION, then JOIN: control requests, and a pause between them. */
	atomic { line = 1; word = 1 };
	atomic {
		if
		:: joined == GONE -> goto dead
		:: else -> joined = JOINED
		fi
	};
	do
	:: n < ROUNDS ->
		n++;
		/* A beat: a plain WRITE to the line. */
		atomic { LAND(0); assert(line == 1); word = word + 1 };
		atomic {
			LAND(1);
			if
			:: lock == 0 -> lock = 1; inside[1] = true; assert(!inside[2] && !inside[3])
			:: else -> goto out
			fi
		};
		/* A WRITE by right of the lock, and one into its own block. */
		atomic { LAND(1); guarded = 1 };
		atomic { LAND(1); block = 1 };
		atomic {
			LAND(1);
			if
			:: lock == 1 -> lock = 0
			:: else
			fi;
			inside[1] = false
		};
out:		skip
	:: n == ROUNDS -> break
	od;
dead:
	/* What it can still do is nothing; what it believes stays. */
	n = 0
}

inline fence_home()
{
	atomic {
		if
		:: refusal && unstoppable -> goto refused
		:: else
		fi;
		cut[0] = true;
		if
		:: process && joined == JOINED -> cut[1] = true; joined = GONE
		:: else
		fi;
		acked[0] = true;
		if
		:: line == 1 -> line = 0; word = 0
		:: else
		fi
	}
}

inline fence_other()
{
#ifdef ACK_BEFORE_CUT
	acked[1] = true;
	atomic { joined = GONE; cut[1] = true };
#else
	atomic {
		if
		:: joined == UNKNOWN ->
			/* Not here yet: then it never will be. */
#ifndef FORGET_UNKNOWN
			joined = GONE;
			cut[1] = true;
#endif
			acked[1] = true
		:: joined == JOINED && unstoppable ->
#ifdef IGNORE_REFUSAL
			acked[1] = true
#else
			/* The home node is asked all the same: it may be able to. */
			refusal = true;
			if
			:: true -> unstoppable = false
			:: true
			fi
#endif
		:: joined == JOINED && !unstoppable -> joined = GONE; cut[1] = true; acked[1] = true
		:: joined == GONE
		fi
	}
#endif
}

proctype other(byte me)
{
	byte seen, was;
	bool refusal;

	/* 1. Take the lock when it is free; or it is the maintenance that looks after the silent. */
	atomic {
		if
		:: lock == 0 -> lock = me; goto won
		:: line == 1 -> was = 3
		:: lock == 1 -> was = 1
		:: else -> goto done
		fi
	};
	/* 2. pool_gone(): is its holder there, and does it move? */
	atomic {
		if
		:: line != 1 -> goto gone
		:: else -> seen = word
		fi
	};
	atomic {
		if
		:: line != 1 -> goto gone
		:: line == 1 && word != seen -> goto done
		:: else
		fi
	};
	/* 3. FENCE: the home node last (S1). */
#ifdef LEASE_IS_FENCE
	skip;
#else
#ifdef HOME_FIRST
	fence_home();
	fence_other();
#else
#ifndef HOME_ONLY
	fence_other();
#endif
	fence_home();
#endif
	/* Some node refused: not yet. Who looks next finds the line free, or not. */
	if
	:: refusal -> goto refused
	:: else
	fi;
#endif
gone:
	if
	:: was == 3 -> goto done
	:: else
	fi;
	/* 4. Take the lock over, by CAS: another one may have been faster. */
	seen = 0;
	atomic {
		if
#ifdef TAKE_UNCHECKED
		:: true -> lock = me
#else
		:: lock == was -> lock = me
		:: else -> goto done
#endif
		fi;
#ifndef LEASE_IS_FENCE
		block = me;
#endif
	};
	was = 2;
won:
	atomic {
		inside[me] = true;
		assert(!inside[5 - me]);
		assert(!inside[1] || cut[1])
	};
	guarded = me;
	atomic {
		assert(guarded == me);
		assert(was != 2 || block == me);
		inside[me] = false;
		lock = 0
	};
done:
refused:
	seen = 0
}

/* The node gives a free line to the next session. */
proctype newcomer()
{
end:
	atomic { cut[0] && line == 0; line = 4; word = 9 };
	atomic { assert(line == 4 && word == 9) }
}

init
{
	atomic {
		if
		:: true
		:: unstoppable = true;
#ifndef STOP_PER_NODE
		   process = true
#endif
		fi;
		run client();
		run other(2);
		run other(3);
		run newcomer()
	}
}
