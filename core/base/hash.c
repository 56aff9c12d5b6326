#include "hash.h"

/* Inlined into this one file: a call into the shared library per key would cost more than hashing it. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t ms_hash(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}

uint64_t ms_hash_seeded(const void *data, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, size, seed);
}
