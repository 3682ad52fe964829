/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h -- the error codes of every Farside function.
 *
 * A function that can fail returns int: 0 (or a count >= 0) or one of these codes, negated.
 */
#ifndef FARSIDE_ERROR_H
#define FARSIDE_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* exported, and nothing else is */

enum far_error {
	FAR_OK = 0,
	FAR_ENOENT = 1,    /* no such key, table or file */
	FAR_EEXIST = 2,    /* the key or table exists already */
	FAR_EINVAL = 3,    /* an argument is wrong: a bug or a typing error of the caller */
	FAR_ENOMEM = 4,    /* a memory node (or this process) has no room left */
	FAR_EKEYLEN = 5,   /* key shorter than 1 B or longer than 64 KiB */
	FAR_EVALLEN = 6,   /* value longer than 16 MiB */
	FAR_EFULL = 7,     /* more keys of one hash than their buckets hold, or directory at its limit */
	FAR_ECHANGED = 8,  /* compare-and-set: the version is not the expected one */
	FAR_ECORRUPT = 9,  /* bytes in far memory break the format */
	FAR_EFORMAT = 10,  /* a region of another format version, or none at all */
	FAR_ENODE = 11,    /* a memory node is gone, or came back empty */
	FAR_EACCESS = 12,  /* address outside the region, or no right to it */
	FAR_EFENCED = 13,  /* this session was revoked, or given up: open another one */
	FAR_EUNSURE = 14,  /* the connection broke: the operation may or may not have happened */
	FAR_ETIMEOUT = 15, /* a bounded wait ran out */
	FAR_ECONTENDED = 16, /* gave up after the retry bound: too many writers on one key */
	FAR_ENOTSUP = 17,  /* this backend or design cannot do that */
	FAR_ESYNTAX = 18,  /* malformed input text */
	FAR_EIO = 19,      /* a local file or stream failed; errno tells why */
	FAR_EINTR = 20,    /* stopped by the user */
	FAR_EAGAIN = 21,   /* no room right now: wait for completions, then try again */
};

/* A short lower-case English text for `err` (either sign); never NULL, static storage. */
const char *far_strerror(int err);

/* The code's name, "FAR_ENOENT"; never NULL, static storage. */
const char *far_errname(int err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
