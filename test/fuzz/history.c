/* SPDX-License-Identifier: Apache-2.0 */
/* Target: a history as text. */
#include "lab/history.h"
#include "fuzz/fuzz.h"

/* Longer ones only take the judge longer. */
enum { HISTORY_BYTES = 2048 };

static char *
history_text(const struct history *h)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	FUZZ_CHECK(out && history_print(h, out) == 0);
	FUZZ_CHECK(fclose(out) == 0);
	return text;
}

static int
history_parse(const void *text, size_t len, struct history *h, unsigned *line)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, len, "r");
	int err;

	FUZZ_CHECK(in);
	err = history_read(h, in, line);
	fclose(in);
	return err;
}

/* What is read can be written, and read again as the same, and its judge comes to a verdict. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct history h = { 0 }, again = { 0 };
	struct history_report r;
	unsigned line = 0;
	char *first, *second;
	int err;

	if (size == 0 || size > HISTORY_BYTES)
		return 0;
	err = history_parse(data, size, &h, &line);
	FUZZ_CHECK((err == 0 || err == -FAR_ESYNTAX) && line > 0);
	if (err == 0) {
		first = history_text(&h);
		FUZZ_CHECK(history_parse(first, strlen(first), &again, NULL) == 0);
		second = history_text(&again);
		FUZZ_CHECK(strcmp(first, second) == 0);
		err = history_check(&h, &r);
		FUZZ_CHECK(err == -FAR_EINVAL || (err == 0 && r.verdict < HISTORY_VERDICTS));
		free(first);
		free(second);
	}
	history_free(&h);
	history_free(&again);
	return 0;
}
