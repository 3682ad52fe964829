/* SPDX-License-Identifier: Apache-2.0 */
/* error.c -- names and texts of the error codes, one line each. */
#include <farside/error.h>

#include "base/base.h"

static const struct {
	const char *name, *text;
} errors[] = {
	[FAR_OK] = { "FAR_OK", "success" },
	[FAR_ENOENT] = { "FAR_ENOENT", "not found" },
	[FAR_EEXIST] = { "FAR_EEXIST", "exists already" },
	[FAR_EINVAL] = { "FAR_EINVAL", "invalid argument" },
	[FAR_ENOMEM] = { "FAR_ENOMEM", "out of memory" },
	[FAR_EKEYLEN] = { "FAR_EKEYLEN", "a key has 1 to 65536 bytes" },
	[FAR_EVALLEN] = { "FAR_EVALLEN", "a value has at most 16777216 bytes" },
	[FAR_EFULL] = { "FAR_EFULL", "too many keys of one hash" },
	[FAR_ECHANGED] = { "FAR_ECHANGED", "the version is not the expected one" },
	[FAR_ECORRUPT] = { "FAR_ECORRUPT", "corrupt bytes in far memory" },
	[FAR_EFORMAT] = { "FAR_EFORMAT", "not a region of this format version" },
	[FAR_ENODE] = { "FAR_ENODE", "a memory node is gone" },
	[FAR_EACCESS] = { "FAR_EACCESS", "outside the region or not permitted" },
	[FAR_EFENCED] = { "FAR_EFENCED", "this session was revoked" },
	[FAR_EUNSURE] = { "FAR_EUNSURE", "connection lost: it may or may not have happened" },
	[FAR_ETIMEOUT] = { "FAR_ETIMEOUT", "timed out" },
	[FAR_ECONTENDED] = { "FAR_ECONTENDED", "gave up: too many writers on one key" },
	[FAR_ENOTSUP] = { "FAR_ENOTSUP", "not supported here" },
	[FAR_ESYNTAX] = { "FAR_ESYNTAX", "malformed input" },
	[FAR_EIO] = { "FAR_EIO", "input or output failed" },
	[FAR_EINTR] = { "FAR_EINTR", "interrupted" },
	[FAR_EAGAIN] = { "FAR_EAGAIN", "no room right now" },
};

static unsigned
error_index(int err)
{
	return err < 0 ? 0U - (unsigned)err : (unsigned)err;
}

const char *
far_strerror(int err)
{
	unsigned i = error_index(err);

	return i < FAR_LEN(errors) ? errors[i].text : "unknown error";
}

const char *
far_errname(int err)
{
	unsigned i = error_index(err);

	return i < FAR_LEN(errors) ? errors[i].name : "FAR_E?";
}
