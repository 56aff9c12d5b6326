/* Lua 5.1's patterns, as LuaJIT has them, with a step counter: a pattern that would take for ever on its subject can be stopped.
 *
 * Nothing of Lua in here. Patterns end with a NUL byte (a NUL inside of one ends it early, as in Lua 5.1; %z matches one). Character
 * classes are those of ASCII. Recursion is at most 200 deep. */
#ifndef MS_LUA_MATCH_H
#define MS_LUA_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MS_MATCH_CAPTURES = 32, MS_MATCH_OPEN = -1, MS_MATCH_POSITION = -2 };

struct ms_match {
    const char *begin, *end; /* the subject; *end is readable and 0 */
    void (*tick)(void *context, uint64_t steps); /* called every 1024 steps or so; need not return. NULL is allowed */
    void *context;

    /* results */
    const char *error; /* static; the pattern is malformed or too complex. NULL = none */
    int level;         /* captures */
    struct {
        const char *at;
        ptrdiff_t size; /* or OPEN, POSITION */
    } capture[MS_MATCH_CAPTURES];

    int depth;
    uint64_t steps;
};

void ms_match_init(struct ms_match *match, const char *subject, size_t size, void (*tick)(void *context, uint64_t steps), void *context);

/* Matches pattern (without its '^') at exactly this place of the subject; returns the match's end, or NULL: no match, or an error. */
const char *ms_match_at(struct ms_match *match, const char *subject, const char *pattern);

/* Whether the pattern has any character that is not matched literally. */
bool ms_match_special(const char *pattern, size_t size);

#endif
