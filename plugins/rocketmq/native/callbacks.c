/* The host's callbacks: from the node's host thread into Java. A batch goes across as one byte[]:
 *
 *      change:  op u8 | key size u32 | value size i32, -1 = none | key | value        little endian, one after the other
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"

enum { CHANGE_HEAD = 9, LOCAL_REFERENCES = 16 };

static JavaVM *machine;
static pthread_key_t attached; /* set in threads that are attached here: its destructor detaches them */
static struct {
    jmethodID apply, role, log, entered, resolved;
} methods;

static void detach(void *unused)
{
    (void)unused;
    (void)(*machine)->DetachCurrentThread(machine);
}

bool binding_init(JavaVM *vm, JNIEnv *env)
{
    machine = vm;
    jclass callbacks = (*env)->FindClass(env, "io/metasync/rocketmq/Native$Callbacks");
    if (!callbacks || pthread_key_create(&attached, detach) != 0) return false;
    methods.apply = (*env)->GetMethodID(env, callbacks, "apply", "([BIJ[BI)I");
    if (methods.apply) methods.role = (*env)->GetMethodID(env, callbacks, "role", "(I[B)V");
    if (methods.role) methods.log = (*env)->GetMethodID(env, callbacks, "log", "(I[B)V");
    if (methods.log) methods.entered = (*env)->GetMethodID(env, callbacks, "entered", "([B[B)V");
    if (methods.entered) methods.resolved = (*env)->GetMethodID(env, callbacks, "resolved", "([B[B[B)I");
    (*env)->DeleteLocalRef(env, callbacks);
    return methods.resolved != NULL;
}

/* The environment of this thread, with a frame for local references; NULL if the JVM is going away. */
static JNIEnv *enter(void)
{
    void *env = NULL;
    if ((*machine)->GetEnv(machine, &env, JNI_VERSION_1_8) != JNI_OK) {
        JavaVMAttachArgs arguments = {JNI_VERSION_1_8, (char *)"metasync-host", NULL};
        if ((*machine)->AttachCurrentThreadAsDaemon(machine, &env, &arguments) != JNI_OK) return NULL;
        if (pthread_setspecific(attached, env) != 0) { /* nobody would detach it */
            detach(NULL);
            return NULL;
        }
    }
    JNIEnv *result = env;
    if ((*result)->PushLocalFrame(result, LOCAL_REFERENCES) != 0) {
        (*result)->ExceptionClear(result);
        return NULL;
    }
    return result;
}

/* Whether the call went well; what it threw is dropped (Java has logged it). */
static bool leave(JNIEnv *env)
{
    bool thrown = (*env)->ExceptionCheck(env);
    if (thrown) (*env)->ExceptionClear(env);
    (void)(*env)->PopLocalFrame(env, NULL);
    return !thrown;
}

static jbyteArray text(JNIEnv *env, const char *string)
{
    return bytes_new(env, (struct ms_bytes){string, strlen(string)});
}

/* ---- batches ----------------------------------------------------------------------------------------------------------------- */

static size_t encoded_size(const struct ms_batch *batch)
{
    size_t size = 0;
    for (size_t i = 0; i < batch->count; i++) size += CHANGE_HEAD + batch->changes[i].key.size + batch->changes[i].value.size;
    return size;
}

static void encode(const struct ms_batch *batch, uint8_t *at)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct ms_change *change = &batch->changes[i];
        uint32_t key_size = (uint32_t)change->key.size;
        int32_t value_size = change->value.data ? (int32_t)change->value.size : -1;
        *at = (uint8_t)change->op;
        memcpy(at + 1, &key_size, sizeof key_size);
        memcpy(at + 5, &value_size, sizeof value_size);
        at += CHANGE_HEAD;
        memcpy(at, change->key.data, key_size);
        at += key_size;
        if (value_size > 0) memcpy(at, change->value.data, (size_t)value_size);
        if (value_size > 0) at += value_size;
    }
}

static int call_apply(void *context, const struct ms_batch *batch)
{
    struct binding *binding = context;
    size_t size = encoded_size(batch);
    uint8_t *encoded = malloc(size + 1);
    JNIEnv *env = encoded && size <= INT32_MAX ? enter() : NULL;
    int rc = -1;
    if (env) {
        encode(batch, encoded);
        jbyteArray name = text(env, batch->table_name), changes = name ? bytes_new(env, (struct ms_bytes){encoded, size}) : NULL;
        if (changes)
            rc = (*env)->CallIntMethod(env, binding->callbacks, methods.apply, name, (jint)batch->flags, (jlong)batch->lsn, changes,
                                       (jint)batch->count);
        if (!leave(env)) rc = -1;
    }
    free(encoded);
    return rc;
}

/* ---- the others ---------------------------------------------------------------------------------------------------------------- */

static void call_role(void *context, int role, const char *reason)
{
    struct binding *binding = context;
    JNIEnv *env = enter();
    if (!env) return;
    jbyteArray words = text(env, reason);
    if (words) (*env)->CallVoidMethod(env, binding->callbacks, methods.role, (jint)role, words);
    (void)leave(env);
}

static void call_log(void *context, int severity, const char *line)
{
    struct binding *binding = context;
    JNIEnv *env = enter();
    if (!env) return;
    jbyteArray words = text(env, line);
    if (words) (*env)->CallVoidMethod(env, binding->callbacks, methods.log, (jint)severity, words);
    (void)leave(env);
}

static void call_entered(void *context, const char *table, struct ms_bytes key)
{
    struct binding *binding = context;
    JNIEnv *env = enter();
    if (!env) return;
    jbyteArray name = text(env, table), key_bytes = name ? bytes_new(env, key) : NULL;
    if (name && !(*env)->ExceptionCheck(env)) (*env)->CallVoidMethod(env, binding->callbacks, methods.entered, name, key_bytes);
    (void)leave(env);
}

static int call_resolved(void *context, struct ms_table *table, struct ms_bytes key, struct ms_bytes value)
{
    struct binding *binding = context;
    JNIEnv *env = enter();
    if (!env) return -1;
    jbyteArray name = text(env, ms_table_name(table)), key_bytes = name ? bytes_new(env, key) : NULL;
    jbyteArray value_bytes = key_bytes ? bytes_new(env, value) : NULL; /* NULL for a removal too */
    int rc = -1;
    if (key_bytes && !(*env)->ExceptionCheck(env))
        rc = (*env)->CallIntMethod(env, binding->callbacks, methods.resolved, name, key_bytes, value_bytes);
    return leave(env) ? rc : -1;
}

void binding_host(struct binding *binding, struct ms_host *host)
{
    *host = (struct ms_host){
        .context = binding,
        .apply = call_apply,
        .role = call_role,
        .log = call_log,
        .entered = call_entered,
        .resolved = call_resolved,
    };
}
