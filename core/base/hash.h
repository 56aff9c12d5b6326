/* XXH3: the hash of keys, entries, groups and frames. */
#ifndef MS_BASE_HASH_H
#define MS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ms_hash(const void *data, size_t size);
uint64_t ms_hash_seeded(const void *data, size_t size, uint64_t seed);

/* Spreads all bits of v over all bits of the result (the splitmix64 finalizer by Sebastiano Vigna, public domain). */
static inline uint64_t ms_mix(uint64_t v)
{
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
    return v ^ (v >> 31);
}

#endif
