/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c -- runs a fuzz target without a fuzzer: every file of its corpus, as it is and a little damaged, in every
 * build. The damage follows from the file's bytes, so it is the same each time.
 *
 * usage: fuzz_TARGET FOLDER...    or: fuzz_TARGET FILE...
 */
#include <dirent.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/rand.h"
#include "fuzz/fuzz.h"

enum { REPLAY_VARIANTS = 16,
       REPLAY_MAX = 1 << 20 };

static uint64_t replay_runs;

static void
replay_damage(uint8_t *data, size_t len, struct far_rng *rng)
{
	for (uint64_t n = 1 + far_rng_below(rng, 4); n > 0; n--) {
		size_t at = far_rng_below(rng, len);

		switch (far_rng_below(rng, 3)) {
		case 0:
			data[at] = (uint8_t)far_rng_next(rng);
			break;
		case 1:
			data[at] ^= (uint8_t)(1 << far_rng_below(rng, 8));
			break;
		default:
			data[at] = data[far_rng_below(rng, len)];
		}
	}
}

/* The target gets memory of exactly the input's length. */
static void
replay_run(const uint8_t *data, size_t len)
{
	uint8_t *exact = malloc(len);

	FUZZ_CHECK(exact || len == 0);
	if (len > 0)
		memcpy(exact, data, len);
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	replay_runs++;
}

static void
replay_file(const char *path)
{
	static uint8_t data[REPLAY_MAX], copy[REPLAY_MAX];
	struct far_rng rng;
	size_t len, cut;
	FILE *f = fopen(path, "rb");

	FUZZ_CHECK(f);
	len = fread(data, 1, sizeof(data), f);
	fclose(f);
	/* Should it crash, this tells which one. */
	printf("# %s\n", path);
	replay_run(data, len);
	far_rng_seed(&rng, XXH3_64bits(data, len));
	for (int i = 0; i < REPLAY_VARIANTS && len > 0; i++) {
		memcpy(copy, data, len);
		replay_damage(copy, len, &rng);
		cut = i % 4 == 3 ? far_rng_below(&rng, len) : len;
		replay_run(copy, cut);
	}
}

static void
replay_path(const char *path)
{
	struct dirent **names;
	struct stat st;
	char file[4096];
	int n;

	FUZZ_CHECK(stat(path, &st) == 0);
	if (!S_ISDIR(st.st_mode)) {
		replay_file(path);
		return;
	}
	n = scandir(path, &names, NULL, alphasort);
	FUZZ_CHECK(n >= 0);
	for (int i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
		if (names[i]->d_name[0] != '.')
			replay_file(file);
		free(names[i]);
	}
	free(names);
}

int
main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++) {
		replay_runs = 0;
		replay_path(argv[i]);
		printf("# %llu runs\n%s %d replay of %s\n", (unsigned long long)replay_runs,
		       replay_runs ? "ok" : "not ok", i, argv[i]);
	}
	printf("1..%d\n", argc - 1);
	return argc > 1 && replay_runs ? 0 : 1;
}
