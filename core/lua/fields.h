/* The numbers of struct ms_policy by name: how the policy language (lua/metasync/schema.lua) and C talk about them. */
#ifndef MS_LUA_FIELDS_H
#define MS_LUA_FIELDS_H

#include <stdbool.h>

#include "../metasync.h"

struct ms_field {
    const char *name;
    uint16_t offset;
    uint8_t size; /* 4 or 8 bytes; all are unsigned or small */
};

/* All number fields of struct ms_policy but table_count, and of struct ms_table_policy. */
extern const struct ms_field ms_policy_fields[];
extern const size_t ms_policy_field_count;
extern const struct ms_field ms_table_fields[];
extern const size_t ms_table_field_count;

/* `in`: the struct. The value has to fit, which lua/metasync/check.lua and ms_policy_check see to; false if it does not. */
uint64_t ms_field_get(const struct ms_field *field, const void *in);
bool ms_field_set(const struct ms_field *field, void *in, uint64_t value);

#endif
