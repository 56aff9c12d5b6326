/* Backtracking over a pattern, item by item. `run` matches the rest of a pattern at a place of the subject and returns where the match
 * ends, or NULL. An error looks like "no match" on the way out, so that whoever would try another way looks at m->error first.
 *
 * The structure is that of Lua's lstrlib.c, so that the results are: greedy items try the longest first, `-` the shortest. */
#include "match.h"

#include <string.h>

enum { ESCAPE = '%', DEPTH = 200, TICK = 1024 };

static const char *run(struct ms_match *m, const char *s, const char *p);

static void count(struct ms_match *m, uint64_t steps)
{
    m->steps += steps;
    if (m->steps < TICK) return;
    steps = m->steps;
    m->steps = 0;
    if (m->tick) m->tick(m->context, steps);
}

static const char *fail(struct ms_match *m, const char *error)
{
    if (!m->error) m->error = error;
    return NULL;
}

/* ---- single characters */

static bool is_class(unsigned char c, char class)
{
    bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z', digit = c >= '0' && c <= '9';
    bool space = c == ' ' || (c >= '\t' && c <= '\r'), control = c < 0x20 || c == 0x7f;
    switch (class) {
    case 'a': return lower || upper;
    case 'c': return control;
    case 'd': return digit;
    case 'g': return c > ' ' && c < 0x7f;
    case 'l': return lower;
    case 'p': return c > ' ' && c < 0x7f && !lower && !upper && !digit;
    case 's': return space;
    case 'u': return upper;
    case 'w': return lower || upper || digit;
    case 'x': return digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    default: return c == 0; /* z */
    }
}

static bool match_class(unsigned char c, char class)
{
    char small = (char)(class | 0x20);
    bool letter = (class >= 'a' && class <= 'z') || (class >= 'A' && class <= 'Z');
    if (!letter || !strchr("acdglpsuwxz", small)) return (unsigned char)class == c;
    return is_class(c, small) == (class == small);
}

/* p at '[', end at its ']'. */
static bool match_set(struct ms_match *m, unsigned char c, const char *p, const char *end)
{
    bool found = true;
    count(m, (uint64_t)(end - p));
    if (p[1] == '^') {
        found = false;
        p++;
    }
    while (++p < end) {
        if (*p == ESCAPE) {
            p++;
            if (match_class(c, *p)) return found;
        } else if (p[1] == '-' && p + 2 < end) {
            p += 2;
            if ((unsigned char)p[-2] <= c && c <= (unsigned char)*p) return found;
        } else if ((unsigned char)*p == c) {
            return found;
        }
    }
    return !found;
}

/* The end of the item at p; NULL = malformed. */
static const char *item_end(struct ms_match *m, const char *p)
{
    const char *from = p;
    switch (*p++) {
    case ESCAPE:
        if (*p == 0) return fail(m, "malformed pattern (ends with '%')");
        return p + 1;
    case '[':
        if (*p == '^') p++;
        do {
            if (*p == 0) return fail(m, "malformed pattern (missing ']')");
            if (*p++ == ESCAPE && *p != 0) p++;
        } while (*p != ']');
        count(m, (uint64_t)(p - from));
        return p + 1;
    default:
        return p;
    }
}

static bool match_one(struct ms_match *m, const char *s, const char *p, const char *end)
{
    if (s >= m->end) return false;
    count(m, 1);
    switch (*p) {
    case '.': return true;
    case ESCAPE: return match_class((unsigned char)*s, p[1]);
    case '[': return match_set(m, (unsigned char)*s, p, end - 1);
    default: return *p == *s;
    }
}

/* ---- items with more than one character */

static const char *match_balance(struct ms_match *m, const char *s, const char *p)
{
    if (p[0] == 0 || p[1] == 0) return fail(m, "unbalanced pattern");
    if (*s != *p) return NULL;
    int open = 1;
    while (++s < m->end) {
        count(m, 1);
        if (*s == p[1]) {
            if (--open == 0) return s + 1;
        } else if (*s == p[0]) {
            open++;
        }
    }
    return NULL;
}

/* %f[set]: between a character that is not in the set and one that is. */
static bool match_frontier(struct ms_match *m, const char *s, const char *p, const char *end)
{
    unsigned char before = s == m->begin ? 0 : (unsigned char)s[-1];
    return !match_set(m, before, p, end - 1) && match_set(m, (unsigned char)*s, p, end - 1);
}

static const char *match_longest(struct ms_match *m, const char *s, const char *p, const char *end)
{
    ptrdiff_t n = 0;
    while (match_one(m, s + n, p, end)) n++;
    for (; n >= 0; n--) {
        const char *result = run(m, s + n, end + 1);
        if (result || m->error) return result;
    }
    return NULL;
}

static const char *match_shortest(struct ms_match *m, const char *s, const char *p, const char *end)
{
    for (;;) {
        const char *result = run(m, s, end + 1);
        if (result || m->error) return result;
        if (!match_one(m, s, p, end)) return NULL;
        s++;
    }
}

/* ---- captures */

static const char *start_capture(struct ms_match *m, const char *s, const char *p, int what)
{
    if (m->level >= MS_MATCH_CAPTURES) return fail(m, "too many captures");
    m->capture[m->level].at = s;
    m->capture[m->level].size = what;
    m->level++;
    const char *result = run(m, s, p);
    if (!result) m->level--;
    return result;
}

static const char *end_capture(struct ms_match *m, const char *s, const char *p)
{
    int i = m->level - 1;
    while (i >= 0 && m->capture[i].size != MS_MATCH_OPEN) i--;
    if (i < 0) return fail(m, "invalid pattern capture");
    m->capture[i].size = s - m->capture[i].at;
    const char *result = run(m, s, p);
    if (!result) m->capture[i].size = MS_MATCH_OPEN;
    return result;
}

/* %1: what capture 1 matched, again. */
static const char *match_again(struct ms_match *m, const char *s, char digit)
{
    int i = digit - '1';
    if (i < 0 || i >= m->level || m->capture[i].size == MS_MATCH_OPEN) return fail(m, "invalid capture index");
    size_t size = (size_t)m->capture[i].size; /* of a position: more than there is */
    if ((size_t)(m->end - s) < size) return NULL;
    count(m, size / 8 + 1);
    return memcmp(m->capture[i].at, s, size) == 0 ? s + size : NULL;
}

/* ---- the pattern */

/* What follows an item that matches one character (or not): its repetition. Sets *next for "go on there", else returns the result. */
static const char *run_item(struct ms_match *m, const char *s, const char *p, const char *end, const char **next)
{
    *next = NULL;
    switch (*end) {
    case '?':
        if (match_one(m, s, p, end)) {
            const char *result = run(m, s + 1, end + 1);
            if (result || m->error) return result;
        }
        *next = end + 1;
        return s;
    case '*': return match_longest(m, s, p, end);
    case '+': return match_one(m, s, p, end) ? match_longest(m, s + 1, p, end) : NULL;
    case '-': return match_shortest(m, s, p, end);
    default:
        if (!match_one(m, s, p, end)) return NULL;
        *next = end;
        return s + 1;
    }
}

/* One item that starts with '%', and is no class. False: it is one after all. */
static bool run_escape(struct ms_match *m, const char **s, const char **p)
{
    const char *end;
    switch ((*p)[1]) {
    case 'b':
        *s = match_balance(m, *s, *p + 2);
        *p += 4;
        return true;
    case 'f':
        *p += 2;
        if (**p != '[') {
            *s = fail(m, "missing '[' after '%f' in pattern");
            return true;
        }
        end = item_end(m, *p);
        if (!end || !match_frontier(m, *s, *p, end)) *s = NULL;
        *p = end;
        return true;
    case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
        *s = match_again(m, *s, (*p)[1]);
        *p += 2;
        return true;
    default:
        return false;
    }
}

static const char *run_items(struct ms_match *m, const char *s, const char *p)
{
    while (s && *p != 0) {
        if (*p == '(') return p[1] == ')' ? start_capture(m, s, p + 2, MS_MATCH_POSITION) : start_capture(m, s, p + 1, MS_MATCH_OPEN);
        if (*p == ')') return end_capture(m, s, p + 1);
        if (*p == '$' && p[1] == 0) return s == m->end ? s : NULL;
        if (*p == ESCAPE && run_escape(m, &s, &p)) continue;
        const char *end = item_end(m, p), *next;
        if (!end) return NULL;
        s = run_item(m, s, p, end, &next);
        if (!next) return s;
        p = next;
    }
    return s;
}

static const char *run(struct ms_match *m, const char *s, const char *p)
{
    if (m->depth >= DEPTH) return fail(m, "pattern too complex");
    m->depth++;
    count(m, 1);
    const char *result = run_items(m, s, p);
    m->depth--;
    return m->error ? NULL : result;
}

void ms_match_init(struct ms_match *match, const char *subject, size_t size, void (*tick)(void *context, uint64_t steps), void *context)
{
    memset(match, 0, sizeof *match);
    match->begin = subject;
    match->end = subject + size;
    match->tick = tick;
    match->context = context;
}

const char *ms_match_at(struct ms_match *match, const char *subject, const char *pattern)
{
    match->level = match->depth = 0;
    match->error = NULL;
    return run(match, subject, pattern);
}

bool ms_match_special(const char *pattern, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (pattern[i] != 0 && strchr("^$*+?.([%-", pattern[i])) return true;
    }
    return false;
}
