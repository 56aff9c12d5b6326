/* The thin layer between Java (io.metasync.rocketmq.Native) and the library: bytes and numbers across, nothing else.
 *
 *  - Texts and keys are byte[] in UTF-8, made by Java's getBytes(UTF_8); JNI's own "modified UTF-8" is never used.
 *  - Handles (node, table, transaction, comparison) are pointers in a long. Java's MetaNode sees to it that no call is under way, and
 *    none begins, when the node is closed; nothing here checks a handle.
 *  - Functions that can fail return a negative MS_E_* and leave the words in Native.lastError() of the same thread; they never throw,
 *    except OutOfMemoryError: the JVM's own, or ours where null would mean that there is no value.
 *  - Callbacks run on the node's host thread, which is attached to the JVM as a daemon at its first callback and detached when it
 *    ends. What a callback throws is caught in Java; whatever still gets here counts as a failure, and is cleared.
 *  - No array is pinned (no critical sections): calls may wait for a disk, and a pinned array would hold up the collector. */
#ifndef METASYNC_JNI_BINDING_H
#define METASYNC_JNI_BINDING_H

#include <jni.h>
#include <stdbool.h>

#include "../../../core/metasync.h"

#define NATIVE(result, name) JNIEXPORT result JNICALL Java_io_metasync_rocketmq_Native_##name

struct binding {
    struct ms_node *node;
    jobject callbacks; /* global reference */
};

/* ---- callbacks.c */

/* Looks the methods of the callbacks' class up; false: an exception is pending. */
bool binding_init(JavaVM *vm, JNIEnv *env);
void binding_host(struct binding *binding, struct ms_host *host);

/* ---- bytes.c: byte[] of Java as bytes of C */

enum { BYTES_ROOM = 512 };

struct bytes {
    struct ms_bytes bytes; /* data == NULL for null */
    void *owned;
    char room[BYTES_ROOM];
};

/* Copies the array, and a NUL byte behind it (so that texts are C strings). false: no memory (MS_E_MEMORY is to be returned). */
bool bytes_get(JNIEnv *env, jbyteArray array, struct bytes *bytes);
void bytes_done(struct bytes *bytes);
jbyteArray bytes_new(JNIEnv *env, struct ms_bytes bytes); /* NULL for no value, or with a pending OutOfMemoryError */
void bytes_no_memory(JNIEnv *env, const char *what);       /* throws OutOfMemoryError */

#endif
