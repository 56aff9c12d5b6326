/* A C program among the specs is a list of cases, each with one sentence that says what holds.
 *
 *      PROGRAM             runs all cases
 *      PROGRAM --list      prints "name<TAB>sentence" per case
 *      PROGRAM NAME...     runs these
 *
 * A case that does not hold says where and why, and ends the program with status 1. */
#ifndef MS_SPEC_CASES_H
#define MS_SPEC_CASES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct spec_case {
    const char *name, *sentence;
    void (*run)(void);
};

#define SPEC_CASE(name, sentence) \
    { \
#name, sentence, name \
    }

/* Ends the program unless the condition holds; the rest is a printf text with what was found instead. */
#define CHECK(condition, ...) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: does not hold: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
            exit(1); \
        } \
    } while (0)

static inline uint64_t spec_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline uint32_t spec_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline int spec_main(const struct spec_case *cases, size_t count, int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++) printf("%s\t%s\n", cases[i].name, cases[i].sentence);
        return 0;
    }
    int ran = 0;
    for (size_t i = 0; i < count; i++) {
        bool wanted = argc < 2;
        for (int a = 1; a < argc; a++) wanted = wanted || strcmp(argv[a], cases[i].name) == 0;
        if (!wanted) continue;
        fprintf(stderr, "%s\n", cases[i].name);
        cases[i].run();
        ran++;
    }
    if (ran == 0) fprintf(stderr, "no such case\n");
    return ran ? 0 : 1;
}

#endif
