/* Globs. A pattern is compiled once, into one unit for each byte that it stands for; after that a fit needs no memory.
 *
 * All units but * take exactly one byte, so what stands before the first * has to fit the text's beginning, and what stands behind the
 * last one its end, byte by byte: a pattern with one * is done then. Each part between two stars takes the first place where it fits;
 * an earlier place never spoils what comes behind, so nothing is ever tried twice. */
#include "patterns.h"

#include "../base/error.h"
#include "../base/mem.h"

enum { PATTERN_MAX = 1024, PATTERNS_MAX = 10000 };
enum { UNIT_ANY = 256, UNIT_STAR = 257 }; /* others: the byte itself */

struct glob {
    const uint16_t *units;
    size_t count;
};

struct pattern {
    struct pattern *next;
    bool has_field;
    struct glob key, field;
    uint16_t units[]; /* of both */
};

struct rule { /* of one table */
    struct rule *next;
    char table[MS_TABLE_NAME_MAX + 1];
    struct pattern *excludes, *includes;
};

struct ms_patterns {
    struct rule *rules;
    uint32_t count;
};

/* ---- fitting -------------------------------------------------------------------------------------------------------------- */

/* units: room for pattern.size. */
static int compile(struct ms_bytes pattern, uint16_t *units, struct glob *glob)
{
    const uint8_t *bytes = pattern.data;
    size_t count = 0;
    for (size_t i = 0; i < pattern.size; i++) {
        if (bytes[i] == '*') {
            if (count == 0 || units[count - 1] != UNIT_STAR) units[count++] = UNIT_STAR;
        } else if (bytes[i] == '?') {
            units[count++] = UNIT_ANY;
        } else if (bytes[i] == '\\') {
            if (++i == pattern.size) return ms_fail(MS_E_INVALID, "a pattern ends with \\, which takes the next byte as it is");
            units[count++] = bytes[i];
        } else {
            units[count++] = bytes[i];
        }
    }
    *glob = (struct glob){units, count};
    return 0;
}

/* Whether `count` units, none of them a star, fit the bytes at `text`. */
static bool fits_here(const uint16_t *units, size_t count, const uint8_t *text)
{
    for (size_t i = 0; i < count; i++)
        if (units[i] != UNIT_ANY && units[i] != text[i]) return false;
    return true;
}

static size_t part_size(const uint16_t *units, const uint16_t *end)
{
    size_t size = 0;
    while (units + size < end && units[size] != UNIT_STAR) size++;
    return size;
}

static bool fits(const struct glob *glob, struct ms_bytes bytes)
{
    const uint16_t *unit = glob->units, *end = glob->units + glob->count;
    const uint8_t *text = bytes.data;
    size_t left = bytes.size, head = part_size(unit, end), tail = 0;
    if (head > left || !fits_here(unit, head, text)) return false;
    if (unit + head == end) return head == left;
    unit += head;
    text += head;
    left -= head;
    while (end[-1 - (ptrdiff_t)tail] != UNIT_STAR) tail++;
    if (tail > left || !fits_here(end - tail, tail, text + left - tail)) return false;
    left -= tail;
    end -= tail;
    while (++unit < end) { /* unit stood on a star; the part behind it */
        size_t size = part_size(unit, end);
        while (size <= left && !fits_here(unit, size, text)) {
            text++;
            left--;
        }
        if (size > left) return false;
        unit += size;
        text += size;
        left -= size;
    }
    return true;
}

bool ms_pattern_fits(struct ms_bytes pattern, struct ms_bytes text)
{
    uint16_t units[PATTERN_MAX];
    struct glob glob;
    return pattern.size <= PATTERN_MAX && compile(pattern, units, &glob) == 0 && fits(&glob, text);
}

/* KEY up to the first NUL, FIELD behind it. */
static bool split(struct ms_bytes whole, struct ms_bytes *key, struct ms_bytes *field)
{
    const uint8_t *bytes = whole.data, *nul = whole.size ? memchr(bytes, '\0', whole.size) : NULL;
    size_t size = nul ? (size_t)(nul - bytes) : whole.size;
    *key = ms_bytes(bytes, size);
    *field = nul ? ms_bytes(nul + 1, whole.size - size - 1) : ms_bytes(NULL, 0);
    return nul != NULL;
}

/* ---- a set of them ---------------------------------------------------------------------------------------------------------- */

int ms_patterns_new(struct ms_patterns **patterns)
{
    *patterns = ms_alloc_zero(sizeof **patterns);
    return *patterns ? 0 : MS_E_MEMORY;
}

static void free_list(struct pattern *list)
{
    for (struct pattern *next; list; list = next) {
        next = list->next;
        ms_release(list);
    }
}

void ms_patterns_free(struct ms_patterns *patterns)
{
    if (!patterns) return;
    for (struct rule *rule = patterns->rules, *next; rule; rule = next) {
        next = rule->next;
        free_list(rule->excludes);
        free_list(rule->includes);
        ms_release(rule);
    }
    ms_release(patterns);
}

static struct rule *find(const struct ms_patterns *patterns, const char *table)
{
    for (struct rule *rule = patterns->rules; rule; rule = rule->next)
        if (strcmp(rule->table, table) == 0) return rule;
    return NULL;
}

static struct rule *find_or_make(struct ms_patterns *patterns, const char *table)
{
    struct rule *rule = find(patterns, table);
    if (rule) return rule;
    rule = ms_alloc_zero(sizeof *rule);
    if (!rule) return NULL;
    memcpy(rule->table, table, strlen(table));
    rule->next = patterns->rules;
    patterns->rules = rule;
    return rule;
}

static int new_pattern(struct ms_bytes bytes, struct pattern **result)
{
    struct ms_bytes key, field;
    struct pattern *pattern = ms_alloc(sizeof *pattern + bytes.size * sizeof *pattern->units);
    if (!pattern) return MS_E_MEMORY;
    pattern->has_field = split(bytes, &key, &field);
    int rc = compile(key, pattern->units, &pattern->key);
    if (!rc) rc = compile(field, pattern->units + pattern->key.count, &pattern->field);
    if (rc) ms_release(pattern);
    else *result = pattern;
    return rc;
}

int ms_patterns_add(struct ms_patterns *patterns, const char *table, struct ms_bytes bytes, bool include)
{
    if (strlen(table) > MS_TABLE_NAME_MAX) return ms_fail(MS_E_LIMIT, "a table's name has at most %d bytes", MS_TABLE_NAME_MAX);
    if (bytes.size > PATTERN_MAX) return ms_fail(MS_E_LIMIT, "table %s: a pattern of %zu bytes, the limit is %d", table, bytes.size, PATTERN_MAX);
    if (patterns->count >= PATTERNS_MAX) return ms_fail(MS_E_LIMIT, "more than %d patterns", PATTERNS_MAX);
    struct pattern *pattern;
    int rc = new_pattern(bytes, &pattern);
    if (rc) return rc == MS_E_INVALID ? ms_fail_wrap(rc, "table %s", table) : rc;
    struct rule *rule = find_or_make(patterns, table);
    if (!rule) {
        ms_release(pattern);
        return MS_E_MEMORY;
    }
    struct pattern **list = include ? &rule->includes : &rule->excludes;
    pattern->next = *list;
    *list = pattern;
    patterns->count++;
    return 0;
}

static bool any_fits(const struct pattern *pattern, struct ms_bytes key, struct ms_bytes field, bool has_field)
{
    for (; pattern; pattern = pattern->next)
        if ((!pattern->has_field || (has_field && fits(&pattern->field, field))) && fits(&pattern->key, key)) return true;
    return false;
}

int ms_patterns_decide(const struct ms_patterns *patterns, const char *table, struct ms_bytes whole)
{
    const struct rule *rule = find(patterns, table);
    struct ms_bytes key, field;
    if (!rule) rule = find(patterns, "*");
    if (!rule) return MS_VIEW_UNKNOWN;
    bool has_field = split(whole, &key, &field);
    if (any_fits(rule->excludes, key, field, has_field)) return MS_VIEW_OUT;
    if (any_fits(rule->includes, key, field, has_field)) return MS_VIEW_IN;
    return rule->includes ? MS_VIEW_OUT : MS_VIEW_UNKNOWN;
}
