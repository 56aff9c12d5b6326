/* What extras_file.c and extras_make.c share. Not for callers: they include extras_file.h. */
#ifndef MS_SYNC_EXTRAS_WRITE_H
#define MS_SYNC_EXTRAS_WRITE_H

#include "../base/error.h"
#include "../base/hash.h"
#include "../base/mem.h"
#include "extras_file.h"

enum { MS_EXTRAS_NAME = 72, MS_EXTRAS_HEADER = 32 };
enum { MS_EXTRAS_LOGGED = 1, MS_EXTRAS_BUFFERED = 2 }; /* the kinds that names end with */

void ms_extras_name(char name[MS_EXTRAS_NAME], struct ms_epoch epoch, int kind);
int ms_extras_folder(struct ms_datadir *dir, char folder[MS_PATH_MAX]);
void ms_extras_header(uint8_t header[MS_EXTRAS_HEADER], uint64_t id, uint64_t count);

#endif
