#include <stdint.h>
#include <stdlib.h>

#include "binding.h"

bool bytes_get(JNIEnv *env, jbyteArray array, struct bytes *bytes)
{
    bytes->owned = NULL;
    bytes->bytes = (struct ms_bytes){NULL, 0};
    if (!array) return true;
    size_t size = (size_t)(*env)->GetArrayLength(env, array);
    char *room = bytes->room;
    if (size >= sizeof bytes->room) room = bytes->owned = malloc(size + 1);
    if (!room) return false;
    (*env)->GetByteArrayRegion(env, array, 0, (jsize)size, (jbyte *)room);
    room[size] = '\0';
    bytes->bytes = (struct ms_bytes){room, size};
    return true;
}

void bytes_done(struct bytes *bytes)
{
    free(bytes->owned);
    bytes->owned = NULL;
}

jbyteArray bytes_new(JNIEnv *env, struct ms_bytes bytes)
{
    if (!bytes.data) return NULL;
    if (bytes.size > INT32_MAX) {
        bytes_no_memory(env, "more bytes than an array can have");
        return NULL;
    }
    jbyteArray array = (*env)->NewByteArray(env, (jsize)bytes.size);
    if (array) (*env)->SetByteArrayRegion(env, array, 0, (jsize)bytes.size, bytes.data);
    return array;
}

void bytes_no_memory(JNIEnv *env, const char *what)
{
    jclass error = (*env)->FindClass(env, "java/lang/OutOfMemoryError");
    if (!error) return; /* what that has thrown will do */
    (void)(*env)->ThrowNew(env, error, what);
    (*env)->DeleteLocalRef(env, error);
}
