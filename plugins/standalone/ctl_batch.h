/* put --batch: many changes from a file of JSON lines. */
#ifndef METASYNCCTL_BATCH_H
#define METASYNCCTL_BATCH_H

#include <jansson.h>

#include "ctl_options.h"

/* Reads options->batch ("-" = standard input) and sends its lines in atomic batches of bounded size, in their order. Stops at the
 * first line or batch that fails, and says what was done before. */
int ctl_batch(const struct ctl_options *options);

/* The JSON of a key that is given as one or two words (key, field); bytes that are not UTF-8 are allowed. */
json_t *ctl_key(const char *key, const char *field);

#endif
