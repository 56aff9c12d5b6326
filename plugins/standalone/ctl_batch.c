#include "ctl_batch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/sync/render.h"
#include "ctl_call.h"

/* Well below the default limit of a batch (256 KiB): what is counted is the text of the lines. */
enum { BATCH_LINES = 2000, BATCH_BYTES = 128 * 1024 };

struct batch {
    const struct ctl_options *options;
    json_t *writes; /* not sent yet */
    size_t bytes;
    unsigned long long line, done;      /* lines read, changes made */
    unsigned long long batches, lsn;    /* requests, position of the last one */
    json_int_t first_at_us, last_at_us; /* when the leader took the first and the last of them */
};

json_t *ctl_key(const char *key, const char *field)
{
    json_t *first = ms_render_bytes(ms_str(key));
    return field ? json_pack("[o,o]", first, ms_render_bytes(ms_str(field))) : first;
}

/* {"key":K,"field":F} -> {"key":[K,F]}; a field may be a number, as queue ids are. */
static bool join_field(json_t *write)
{
    json_t *field = json_object_get(write, "field"), *key = json_object_get(write, "key");
    char number[32];
    if (!field) return true;
    (void)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(field));
    json_t *second = json_is_integer(field) ? json_string(number) : json_incref(field);
    bool joined = json_object_set_new(write, "key", json_pack("[O,o]", key, second)) == 0;
    return joined && json_object_del(write, "field") == 0;
}

static int fail_line(const struct batch *batch, const char *why)
{
    fprintf(stderr, "metasyncctl: %s, line %llu: %s\n", batch->options->batch, batch->line, why);
    return CTL_FAILED;
}

/* One change alone may be larger than a batch: it is sent as put or delete. */
static json_t *request_for(struct batch *batch)
{
    json_t *only = json_array_get(batch->writes, 0), *request;
    if (json_array_size(batch->writes) > 1) {
        request = ctl_request("put-batch");
        json_object_set(request, "writes", batch->writes);
        return request;
    }
    const json_t *value = json_object_get(only, "value");
    request = ctl_request(value && !json_is_null(value) ? "put" : "delete");
    json_object_update(request, only);
    return request;
}

static int send_batch(struct batch *batch)
{
    size_t count = json_array_size(batch->writes);
    json_t *reply = NULL;
    if (count == 0) return CTL_OK;
    int rc = ctl_call(batch->options, request_for(batch), CTL_WRITE, &reply);
    if (rc) {
        fprintf(
            stderr,
            "metasyncctl: stopped at the batch of lines up to %llu; %llu changes before it were made, up to position %llu\n",
            batch->line, batch->done, batch->lsn);
        return rc;
    }
    batch->lsn = (unsigned long long)json_integer_value(json_object_get(reply, "lsn"));
    batch->last_at_us = json_integer_value(json_object_get(reply, "at_us"));
    if (!batch->batches) batch->first_at_us = batch->last_at_us;
    batch->done += count;
    batch->batches++;
    batch->bytes = 0;
    json_decref(reply);
    return json_array_clear(batch->writes) ? CTL_FAILED : CTL_OK;
}

static int add_line(struct batch *batch, const char *text, size_t size)
{
    json_error_t error;
    if (strspn(text, " \t\r\n") == size) return CTL_OK;
    json_t *write = json_loadb(text, size, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(write)) {
        json_decref(write);
        return fail_line(batch, write ? "not a JSON object" : error.text);
    }
    if (!json_object_get(write, "key") || !json_is_string(json_object_get(write, "table")) || !join_field(write)) {
        json_decref(write);
        return fail_line(batch, "\"table\" or \"key\" is missing");
    }
    batch->bytes += size;
    return json_array_append_new(batch->writes, write) ? fail_line(batch, "out of memory") : CTL_OK;
}

static int read_lines(struct batch *batch, FILE *file)
{
    char *text = NULL;
    size_t capacity = 0;
    ssize_t size;
    int rc = CTL_OK;
    while (!rc && (size = getline(&text, &capacity, file)) >= 0) {
        /* A line that would not fit any more goes into the next batch. */
        if (batch->bytes + (size_t)size > BATCH_BYTES) rc = send_batch(batch);
        batch->line++;
        if (!rc) rc = add_line(batch, text, (size_t)size);
        if (!rc && json_array_size(batch->writes) >= BATCH_LINES) rc = send_batch(batch);
    }
    free(text);
    if (!rc && ferror(file)) rc = fail_line(batch, strerror(errno));
    return rc ? rc : send_batch(batch);
}

int ctl_batch(const struct ctl_options *options)
{
    bool standard = strcmp(options->batch, "-") == 0;
    FILE *file = standard ? stdin : fopen(options->batch, "re");
    if (!file) {
        fprintf(stderr, "metasyncctl: %s: %s\n", options->batch, strerror(errno));
        return CTL_FAILED;
    }
    struct batch batch = {.options = options, .writes = json_array()};
    int rc = read_lines(&batch, file);
    json_decref(batch.writes);
    if (!standard) (void)fclose(file);
    if (rc) return rc;
    if (ctl_given(options, CTL_JSON))
        printf("{\"ok\":true,\"changes\":%llu,\"batches\":%llu,\"lsn\":%llu,\"first_at_us\":%lld,\"at_us\":%lld}\n",
               batch.done, batch.batches, batch.lsn, (long long)batch.first_at_us, (long long)batch.last_at_us);
    else
        printf("%llu changes in %llu batches, up to position %llu\n", batch.done, batch.batches, batch.lsn);
    return CTL_OK;
}
