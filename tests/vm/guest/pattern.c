// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pattern SEED OCTETS: writes so many octets to standard output, the same for the same seed, and nowhere the same run twice.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 8192 };

static uint64_t next(uint64_t *state)
{
	uint64_t word = *state += 0x9e3779b97f4a7c15;

	word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
	word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
	return word ^ (word >> 31);
}

static uint64_t number(const char *text)
{
	char *end;

	errno = 0;
	uint64_t value = strtoull(text, &end, 10);
	if (errno || end == text || *end) {
		fprintf(stderr, "pattern: no number: %s\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	static uint64_t words[WORDS];

	if (argc != 3) {
		fprintf(stderr, "usage: pattern SEED OCTETS\n");
		return 2;
	}
	uint64_t state = number(argv[1]), left = number(argv[2]);
	while (left) {
		size_t part = left < sizeof(words) ? left : sizeof(words);

		for (size_t i = 0; i < WORDS; i++)
			words[i] = next(&state);
		if (fwrite(words, 1, part, stdout) != part) {
			perror("pattern: write");
			return 1;
		}
		left -= part;
	}
	if (fflush(stdout)) {
		perror("pattern: write");
		return 1;
	}
	return 0;
}
