/* The message of the last failure, per thread.
 *
 * A function that fails returns a negative MS_E_* and says why once, where the cause is known: return ms_fail(code, ...).
 * Callers that know more (file, key, peer) put it in front: return ms_fail_wrap(rc, "load %s", path). The text stays until
 * the thread's next failure; the public API hands it out as ms_error_message(). */
#ifndef MS_BASE_ERROR_H
#define MS_BASE_ERROR_H

#include "../metasync.h"

enum { MS_ERROR_SIZE = 512 };

/* Sets the message and returns code. A message that is too long is cut. */
int ms_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "context: " before the message and returns code. */
int ms_fail_wrap(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The message, or the code's own text if the message is empty; valid until this thread's next failure. */
const char *ms_fail_message(int code);

void ms_fail_clear(void);

#endif
