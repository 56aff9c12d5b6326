/* Patterns of a policy's `replicate`: which tables and keys are in the view, decided in C.
 *
 * A pattern is a glob over bytes: * stands for any bytes (none too), ? for one byte, \ takes the next one as it is; all else stands for
 * itself. It has to fit the whole key: for keys with a field, KEY and FIELD are matched apart: a pattern with a NUL byte has one part
 * for each; one without fits KEY and says nothing of the field. A table's name "*" in a rule means every table that has no rule of its own.
 *
 * Order: exclude before include. If a table has include patterns and none fits, the entry is out; if no pattern says anything, the
 * filter decides. */
#ifndef MS_SYNC_PATTERNS_H
#define MS_SYNC_PATTERNS_H

#include "rules.h"

int ms_patterns_new(struct ms_patterns **patterns); /* empty: UNKNOWN for everything */
void ms_patterns_free(struct ms_patterns *patterns); /* NULL is allowed */

/* include: true or exclude. MS_E_LIMIT (a pattern over 1 KiB, more than 10,000 patterns), MS_E_INVALID (ends with \), MS_E_MEMORY. */
int ms_patterns_add(struct ms_patterns *patterns, const char *table, struct ms_bytes pattern, bool include);

/* enum ms_decision; UNKNOWN: no pattern decides. Cost: linear in the key for each pattern with at most one *, bounded by key x pattern
 * else. Reads only: any thread. */
int ms_patterns_decide(const struct ms_patterns *patterns, const char *table, struct ms_bytes key);

/* Whether the glob fits all of text. For specs. */
bool ms_pattern_fits(struct ms_bytes pattern, struct ms_bytes text);

#endif
