#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[MS_ERROR_SIZE];

const char *ms_error_text(int code)
{
    if (code == 0) return "ok";
    if (code == MS_LOCAL) return "not logged, by policy";
    switch (code) {
#define MS_ERROR_CASE(name, value, text) \
    case name: return text;
        MS_ERRORS(MS_ERROR_CASE)
#undef MS_ERROR_CASE
    default: return "unknown error";
    }
}

const char *ms_error_message(void)
{
    return message;
}

const char *ms_fail_message(int code)
{
    return message[0] ? message : ms_error_text(code);
}

void ms_fail_clear(void)
{
    message[0] = '\0';
}

int ms_fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return code;
}

int ms_fail_wrap(int code, const char *format, ...)
{
    char cause[MS_ERROR_SIZE];
    (void)snprintf(cause, sizeof cause, "%s", ms_fail_message(code));
    va_list args;
    va_start(args, format);
    int length = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof message)
        (void)snprintf(message + length, sizeof message - (size_t)length, ": %s", cause);
    return code;
}
