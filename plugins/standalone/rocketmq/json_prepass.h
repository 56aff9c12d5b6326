/* RocketMQ's JSON writers (fastjson) put integer map keys without quotes: {0:5,-1:7}. No JSON parser takes that, so this
 * pass runs in front of one. It reads the text once, without recursion, and writes the "clean" text:
 *
 *      original   {                        clean   {"a@g":{"0":5,"-1":7}}
 *                   "a@g" : {0:5, -1:7}
 *                 }
 *
 *  - A bare key that is -?[0-9]+, in the shortest form ("007", "+5", "-0" and "1.0" are not) and within 32 bits, gets
 *    quotes: 1 and "1" are the same key from then on. Any other bare key, and an object or array as a key, is refused here.
 *  - Blanks between tokens go (one stays where two words would join). Strings and numbers keep their spelling, so that a
 *    value cut out of the clean text is the file's own text.
 *  - A UTF-8 byte order mark at the start goes.
 *  - A NUL byte anywhere, more than MS_JSON_DEPTH_MAX levels and more than MS_JSON_SIZE_MAX bytes are refused: what runs
 *    behind this pass recurses, and may do so on a small stack.
 *
 * Everything else that is no JSON passes through, for the parser to refuse. Pure, any thread. */
#ifndef MS_ROCKETMQ_JSON_PREPASS_H
#define MS_ROCKETMQ_JSON_PREPASS_H

#include "../../../core/base/bytes.h"

enum {
    MS_JSON_DEPTH_MAX = 512,
    MS_JSON_SIZE_MAX = 256 * 1024 * 1024,
};

/* What the pass refused, and where. */
struct ms_json_fault {
    size_t at; /* byte of the original text, from 0 */
    char what[200];
};

/* Appends the clean text to clean. 0; MS_E_FORMAT or MS_E_LIMIT: fault says why, clean has what came before it;
 * MS_E_MEMORY. */
int ms_json_prepass(struct ms_bytes text, struct ms_buf *clean, struct ms_json_fault *fault);

/* Where byte `at` of the clean text came from: its place in the original. Costs one more pass. */
size_t ms_json_original(struct ms_bytes text, size_t at);

/* The same for a parser that stopped after it had taken `taken` bytes of the clean text: the start of the token that it did
 * not want, or the very byte within a string. */
size_t ms_json_original_stop(struct ms_bytes text, size_t taken);

/* Whether these bytes are an int32 in its one spelling; number may be NULL. */
bool ms_json_int32(struct ms_bytes digits, int32_t *number);

#endif
