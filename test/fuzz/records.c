/* SPDX-License-Identifier: Apache-2.0 */
/* Target: CSV, TSV, INI, JSON lines and dumps, as `farside load` reads them. */
#include <jansson.h>

#include "cli/record.h"
#include "fuzz/fuzz.h"

static void
records_check(const struct record_opts *o, const struct record_source *r, const struct record *rec)
{
	json_error_t why;
	json_t *j;

	FUZZ_CHECK(rec->line > 0);
	FUZZ_CHECK(rec->key.data && rec->value.data);
	/* A value that is not one column's bytes is a JSON object. */
	if (o->value || record_format(r) == RECORD_DUMP)
		return;
	j = json_loadb(rec->value.data, rec->value.len, JSON_ALLOW_NUL, &why);
	/* A number keeps its text, a name its zero bytes; that this library has no room for them is no fault. */
	FUZZ_CHECK(json_is_object(j) || json_error_code(&why) == json_error_numeric_overflow ||
		   json_error_code(&why) == json_error_null_byte_in_key);
	json_decref(j);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const keys[] = { NULL, "a", "a,b", "@section", "", "b,,a", "k", "a,b,c,d,e,f,g,h,i" };
	static const char *const values[] = { NULL, "a", "v", "@section" };
	static const char delimiters[] = { 0, ';', '"', '\n' };
	struct fuzz_in in = { data, size };
	unsigned format = fuzz_byte(&in), columns = fuzz_byte(&in);
	struct record_opts o = {
		.format = (enum record_format)(format % RECORD_FORMATS),
		.key = keys[columns & 7],
		.value = values[columns >> 3 & 3],
		.prefix = columns & 0x20 ? "p:" : NULL,
		.delimiter = delimiters[columns >> 6],
	};
	struct record_source *r;
	struct record rec;
	size_t rounds = 0;
	int err;

	FUZZ_CHECK(record_open(fuzz_file(in.at, in.left), &o, &r) == 0);
	while ((err = record_next(r, &rec)) == 1 || err == -FAR_ESYNTAX) {
		if (err == 1)
			records_check(&o, r, &rec);
		else
			FUZZ_CHECK(record_error(r)[0] != '\0');
		/* Each record or error takes a byte at least, but for the last line. */
		FUZZ_CHECK(++rounds <= in.left + 2);
	}
	FUZZ_CHECK(err == 0 || err == -FAR_EINVAL || err == -FAR_EIO);
	FUZZ_CHECK(err == 0 || record_error(r)[0] != '\0');
	record_close(r);
	return 0;
}
