/* Native methods of a node: life, roles, status, policy. */
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "../../standalone/rocketmq/control.h"
#include "binding.h"

enum { TEXTS = 7, PEERS_MAX = 16 };

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved)
{
    void *env = NULL;
    (void)reserved;
    if ((*vm)->GetEnv(vm, &env, JNI_VERSION_1_8) != JNI_OK || !binding_init(vm, env)) return JNI_ERR;
    /* At the process's end threads of a node may still run: nothing may be torn down below them. */
    if (!OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL)) return JNI_ERR;
    return JNI_VERSION_1_8;
}

static struct binding *binding_of(jlong handle)
{
    return (struct binding *)(uintptr_t)handle;
}

static jbyteArray text(JNIEnv *env, const char *string)
{
    return bytes_new(env, (struct ms_bytes){string, strlen(string)});
}

NATIVE(jbyteArray, lastError)(JNIEnv *env, jclass class)
{
    (void)class;
    return text(env, ms_error_message());
}

NATIVE(jbyteArray, errorText)(JNIEnv *env, jclass class, jint code)
{
    (void)class;
    return text(env, ms_error_text(code));
}

/* ---- opening, closing ---------------------------------------------------------------------------------------------------------- */

static void free_binding(JNIEnv *env, struct binding *binding)
{
    if (binding->callbacks) (*env)->DeleteGlobalRef(env, binding->callbacks);
    free(binding);
}

/* What the control socket has beyond the library's own commands. The node's control threads end before the binding does. */
static int run_command(void *context, const char *request, char **reply)
{
    return ms_rocketmq_export_command(((struct binding *)context)->node, request, reply);
}

/* texts: dir, cluster, name, listen, secret, control, policy file; null where there is none */
static jlong open_node(JNIEnv *env, const struct bytes texts[TEXTS], jobject callbacks)
{
    struct binding *binding = calloc(1, sizeof *binding);
    if (binding) binding->callbacks = (*env)->NewGlobalRef(env, callbacks);
    if (!binding || !binding->callbacks) {
        if (binding) free_binding(env, binding);
        return MS_E_MEMORY;
    }
    struct ms_host host;
    binding_host(binding, &host);
    struct ms_config config = {
        .dir = texts[0].bytes.data,
        .cluster = texts[1].bytes.data,
        .name = texts[2].bytes.data,
        .listen = texts[3].bytes.data,
        .secret = texts[4].bytes.data,
        .control = texts[5].bytes.data,
        .policy_file = texts[6].bytes.data,
        .host = &host,
    };
    int rc = ms_open(&config, &binding->node);
    if (rc == 0) {
        ms_control_extend(binding->node, run_command, binding);
        return (jlong)(uintptr_t)binding;
    }
    free_binding(env, binding);
    return rc;
}

NATIVE(jlong, open)(JNIEnv *env, jclass class, jobjectArray arrays, jobject callbacks)
{
    (void)class;
    struct bytes texts[TEXTS];
    jlong result = (*env)->GetArrayLength(env, arrays) == TEXTS ? 0 : MS_E_INVALID;
    int count = 0;
    for (; count < TEXTS && !result; count++) {
        jobject array = (*env)->GetObjectArrayElement(env, arrays, count);
        if (!bytes_get(env, array, &texts[count])) result = MS_E_MEMORY;
        (*env)->DeleteLocalRef(env, array);
    }
    if (!result) result = open_node(env, texts, callbacks);
    while (count > 0) bytes_done(&texts[--count]);
    return result;
}

NATIVE(void, endCalls)(JNIEnv *env, jclass class, jlong handle)
{
    (void)env, (void)class;
    ms_end_calls(binding_of(handle)->node);
}

NATIVE(void, close)(JNIEnv *env, jclass class, jlong handle)
{
    (void)class;
    ms_close(binding_of(handle)->node);
    free_binding(env, binding_of(handle));
}

NATIVE(jint, port)(JNIEnv *env, jclass class, jlong handle)
{
    (void)env, (void)class;
    return ms_port(binding_of(handle)->node);
}

/* ---- roles ----------------------------------------------------------------------------------------------------------------------- */

NATIVE(jint, lead)(JNIEnv *env, jclass class, jlong handle, jobjectArray arrays, jboolean compares, jint timeout_ms)
{
    (void)class;
    struct ms_node *node = binding_of(handle)->node;
    struct bytes texts[PEERS_MAX];
    const char *peers[PEERS_MAX];
    int rc = 0, count = 0, wanted = (*env)->GetArrayLength(env, arrays);
    if (wanted > PEERS_MAX) return MS_E_LIMIT;
    for (; count < wanted && !rc; count++) {
        jobject array = (*env)->GetObjectArrayElement(env, arrays, count);
        if (!bytes_get(env, array, &texts[count])) rc = MS_E_MEMORY;
        peers[count] = texts[count].bytes.data;
        (*env)->DeleteLocalRef(env, array);
    }
    if (!rc && compares) rc = ms_lead_comparing(node, peers, (size_t)count, timeout_ms);
    else if (!rc) rc = ms_lead(node, peers, (size_t)count, timeout_ms);
    while (count > 0) bytes_done(&texts[--count]);
    return rc;
}

NATIVE(jint, follow)(JNIEnv *env, jclass class, jlong handle, jbyteArray address)
{
    (void)class;
    struct bytes text;
    if (!bytes_get(env, address, &text)) return MS_E_MEMORY;
    int rc = ms_follow(binding_of(handle)->node, text.bytes.data);
    bytes_done(&text);
    return rc;
}

NATIVE(jint, promote)(JNIEnv *env, jclass class, jlong handle, jlong least_reign, jint flags, jint timeout_ms)
{
    (void)env, (void)class;
    return ms_promote_to(binding_of(handle)->node, (uint64_t)least_reign, flags, timeout_ms);
}

NATIVE(jint, compared)(JNIEnv *env, jclass class, jlong handle)
{
    (void)env, (void)class;
    return ms_compared(binding_of(handle)->node);
}

NATIVE(jint, adopt)(JNIEnv *env, jclass class, jlong handle)
{
    (void)env, (void)class;
    return ms_adopt(binding_of(handle)->node);
}

/* ---- looking ---------------------------------------------------------------------------------------------------------------------- */

/* role, reign, run, id, head, written, synced, replicated, applied, host applied, the leader's head, the highest known reign, enabled,
 * on_beyond_end */
NATIVE(void, position)(JNIEnv *env, jclass class, jlong handle, jlongArray array)
{
    (void)class;
    struct ms_position p = {0};
    (void)ms_position(binding_of(handle)->node, &p);
    const jlong numbers[] = {p.role,           (jlong)p.reign,      (jlong)p.run,        (jlong)p.id,      (jlong)p.head,        (jlong)p.written,
                             (jlong)p.synced,  (jlong)p.replicated, (jlong)p.applied,    (jlong)p.host_applied, (jlong)p.leader_head,
                             (jlong)p.known_reign, p.enabled, p.on_beyond_end};
    (*env)->SetLongArrayRegion(env, array, 0, sizeof numbers / sizeof *numbers, numbers);
}

NATIVE(jbyteArray, status)(JNIEnv *env, jclass class, jlong handle)
{
    (void)class;
    char *json = NULL;
    int rc = ms_status(binding_of(handle)->node, &json);
    jbyteArray result = rc == 0 ? text(env, json) : NULL;
    ms_free(json);
    return result;
}

NATIVE(jint, snapshot)(JNIEnv *env, jclass class, jlong handle, jint timeout_ms)
{
    (void)env, (void)class;
    return ms_snapshot(binding_of(handle)->node, timeout_ms);
}

NATIVE(jint, flush)(JNIEnv *env, jclass class, jlong handle)
{
    (void)env, (void)class;
    return ms_flush(binding_of(handle)->node, NULL, NULL);
}
