/* SPDX-License-Identifier: Apache-2.0 */
/* Target: hexadecimal and base64, text for JSON and for people, numbers with units, pool URIs. */
#include <ctype.h>
#include <jansson.h>

#include "cli/bytes.h"
#include "cli/number.h"
#include "fuzz/fuzz.h"
#include "store/handle.h"

/* What decodes is the one text of its bytes; any bytes survive both ways. */
static void
text_code(enum bytes_code code, struct far_bytes raw)
{
	struct bytes a = { .data = NULL }, b = { .data = NULL };
	const char *s = raw.data;
	int err = bytes_decode(&a, code, raw);

	FUZZ_CHECK(err == 0 || err == -FAR_ESYNTAX);
	if (err == 0) {
		FUZZ_CHECK(bytes_encode(&b, code, bytes_view(&a)) == 0);
		FUZZ_CHECK(b.len == raw.len);
		for (size_t i = 0; i < b.len; i++)
			FUZZ_CHECK(b.data[i] == (code == BYTES_HEX ? tolower(s[i]) : s[i]));
	}
	bytes_reset(&a, 0);
	bytes_reset(&b, 0);
	FUZZ_CHECK(bytes_encode(&a, code, raw) == 0 && bytes_decode(&b, code, bytes_view(&a)) == 0);
	FUZZ_CHECK(b.len == raw.len && (raw.len == 0 || memcmp(b.data, s, raw.len) == 0));
	bytes_free(&a);
	bytes_free(&b);
}

static void
text_json(struct far_bytes raw)
{
	struct bytes b = { .data = NULL }, back = { .data = NULL };
	json_t *j, *v, *v64;

	FUZZ_CHECK(bytes_add(&b, "{", 1) == 0 && bytes_json_member(&b, "k", raw) == 0 && bytes_add(&b, "}", 1) == 0);
	j = json_loadb(b.data, b.len, JSON_ALLOW_NUL, NULL);
	FUZZ_CHECK(j);
	v = json_object_get(j, "k");
	v64 = json_object_get(j, "k64");
	FUZZ_CHECK(!v != !v64);
	FUZZ_CHECK(bytes_decode(&back, v ? BYTES_RAW : BYTES_BASE64,
				far_bytes(json_string_value(v ? v : v64), json_string_length(v ? v : v64))) == 0);
	FUZZ_CHECK(back.len == raw.len && (raw.len == 0 || memcmp(back.data, raw.data, raw.len) == 0));
	json_decref(j);
	bytes_free(&b);
	bytes_free(&back);
}

/* Nothing that steers a terminal gets through. */
static void
text_human(struct far_bytes raw, size_t max)
{
	struct bytes b = { .data = NULL };

	FUZZ_CHECK(bytes_human(&b, raw, max) == 0);
	FUZZ_CHECK(b.len <= 4 * max + 64);
	for (size_t i = 0; i < b.len; i++)
		FUZZ_CHECK((unsigned char)b.data[i] >= 0x20 && b.data[i] != 0x7f);
	bytes_free(&b);
}

/* Letters stand for powers of 1024; or of 60 seconds, and then there must be one. */
static bool
text_unit_plain(const char *s, bool seconds, __uint128_t *unit)
{
	const char *letters = seconds ? "smh" : "kmgt";
	const char *u = *s ? strchr(letters, tolower((unsigned char)*s)) : NULL;

	*unit = seconds ? 1000000000 : 1;
	if (*s == '\0')
		return !seconds;
	if (!u || s[1] || (seconds && isupper((unsigned char)*s)))
		return false;
	for (long i = u - letters + !seconds; i > 0; i--)
		*unit *= seconds ? 60 : 1024;
	return true;
}

/* The same as number_parse(), in the plainest way. */
static bool
text_number_plain(const char *s, struct number_range range, uint64_t *out)
{
	__uint128_t n = 0, unit;

	if (!isdigit((unsigned char)*s))
		return false;
	for (; isdigit((unsigned char)*s); s++)
		n = n > range.max ? n : n * 10 + (unsigned)(*s - '0');
	if (range.kind < NUMBER_COUNT ? *s != '\0' : !text_unit_plain(s, range.kind == NUMBER_TIME, &unit))
		return false;
	if (range.kind >= NUMBER_COUNT)
		n *= unit;
	*out = (uint64_t)n;
	return n >= range.min && n <= range.max;
}

static void
text_number(const char *s, struct number_range range)
{
	uint64_t got = 0, want = 0;
	bool fine = number_parse(s, range, &got);

	FUZZ_CHECK(fine == text_number_plain(s, range, &want));
	FUZZ_CHECK(!fine || got == want);
}

static void
text_uri(const char *s)
{
	static struct far_loop *loop;
	struct far_loop_opts opts = { .seed = 1 };
	struct far_fabric *f = NULL;
	struct pool_misfit none = { .kind = POOL_FITS };
	char why[FAR_ERRMSG_MAX] = "";
	int err;

	if (!loop)
		FUZZ_CHECK(far_loop_open(&opts, &loop) == 0);
	err = store_uri_check(s, why);
	FUZZ_CHECK(err == 0 || (err == -FAR_EINVAL && why[0] && strlen(why) < sizeof(why)));
	err = far_fabric_open(s, loop, NULL, &f);
	FUZZ_CHECK(err < 0 && f == NULL);
	if (store_uri_check(s, why) == 0)
		store_uri_explain(s, err, &none, why);
	FUZZ_CHECK(strlen(why) < sizeof(why));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct number_range ranges[] = {
		{ NUMBER_COUNT, 0, UINT64_MAX },
		{ NUMBER_SIZE, 5, 1 << 20 },
		{ NUMBER_COUNT, 0, 0 },
		{ NUMBER_COUNT, 7, 1000000007 },
		{ NUMBER_TIME, 1, UINT64_MAX },
		{ NUMBER_TIME, 0, UINT64_C(1) << 44 },
		{ NUMBER_PLAIN, 1, 65536 },
		{ NUMBER_VERSION, 0, UINT64_MAX },
	};
	struct fuzz_in in = { data, size };
	unsigned mode = fuzz_byte(&in);
	struct far_bytes raw = far_bytes(in.at, in.left);
	char *s;

	switch (mode & 7) {
	case 0:
		text_code(BYTES_HEX, raw);
		break;
	case 1:
		text_code(BYTES_BASE64, raw);
		break;
	case 2:
		text_json(raw);
		break;
	case 3:
		text_human(raw, mode >> 3);
		break;
	case 4:
		text_number(s = fuzz_string(&in, 64), ranges[mode >> 3 & 7]);
		free(s);
		break;
	default:
		text_uri(s = fuzz_string(&in, 4096));
		free(s);
	}
	return 0;
}
