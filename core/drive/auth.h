/* The handshake of a link: who may talk at all. A passive state machine, payloads in, frames out; it knows no socket.
 *
 *      client                               listener
 *      GREETING ───────────────────────────>
 *               <─────────────────────────── GREETING          both are sent at once, in any order
 *      PROOF    ───────────────────────────>                   only if both have a secret; the client proves first, so that
 *               <─────────────────────────── PROOF              nobody gets a proof out of a listener without having proved
 *
 * GREETING payload:
 *      0          8          9         10      11   12           44
 *      +----------+----------+---------+-------+----+------------+---- fields of sync/frame.h: cluster ----
 *      | METASYNC | newest   | oldest  | flags | 0  | nonce 32   |
 *      +----------+----------+---------+-------+----+------------+
 *  newest, oldest: handshake versions that the sender speaks. flags: 1 = has a secret, 2 = is the client.
 *
 * PROOF payload: HMAC-SHA256(secret, "metasync-1" | side 'C' or 'L' of the sender | u32 size, own greeting | u32 size,
 * peer's greeting). Both nonces and the side are inside, so that a proof is good for one side of one link only: it can't be
 * replayed or reflected. Whole greetings are inside, so that nothing in them can be changed on the way.
 *
 * Refused, with a BYE that tells the peer why: no metasync, no common version, another cluster (MS_E_CLUSTER), a secret on
 * one side only, a wrong proof, our own greeting come back (MS_E_AUTH). What the handshake does not give is secrecy or
 * integrity of what follows: who can change packets on the way can take over a link after it. That needs TLS, or a network
 * one can trust. */
#ifndef MS_DRIVE_AUTH_H
#define MS_DRIVE_AUTH_H

#include <stdbool.h>

#include "../base/bytes.h"

enum {
    MS_AUTH_VERSION = 1,
    MS_AUTH_NONCE = 32,
    MS_AUTH_PROOF = 32,
    MS_AUTH_GREETING_MIN = 44,
    MS_AUTH_GREETING_MAX = 512, /* what is accepted; ours is shorter. Later versions may add fields */
    MS_AUTH_FRAME_MAX = 1024,   /* payload of any frame in a handshake; a longer one ends it */
    MS_SECRET_MIN = 16,         /* bytes */
};

enum ms_auth_result { MS_AUTH_MORE = 0, MS_AUTH_DONE = 1 };

struct ms_auth {
    const char *secret;  /* borrowed; NULL = none */
    const char *cluster; /* borrowed */
    bool is_client, greeted, done, failed;
    size_t own_size, peer_size;
    uint8_t own[MS_AUTH_GREETING_MAX], peer[MS_AUTH_GREETING_MAX]; /* greetings */
};

/* MS_E_INVALID if the secret is shorter than MS_SECRET_MIN. NULL is fine. */
int ms_auth_check_secret(const char *secret);

/* Fresh random bytes from the kernel. */
int ms_auth_nonce(uint8_t nonce[MS_AUTH_NONCE]);

/* Secret (NULL = none) and cluster (at most 63 bytes) must outlive the machine. Errors: INVALID, MEMORY. Needs no close. */
int ms_auth_init(struct ms_auth *auth, const char *secret, const char *cluster, bool is_client,
                 const uint8_t nonce[MS_AUTH_NONCE]);

/* Appends our greeting as a whole frame: to be sent first, by both sides. */
void ms_auth_greeting(const struct ms_auth *auth, struct ms_buf *frames);

/* Takes a frame of the peer and appends what has to be sent in answer. DONE: both are who they say; nothing more comes
 * through here. A negative result is final: send the answer (a BYE), then close. A peer's BYE gives the code that it sent
 * (AUTH if that is none of ours) and its words. Whether the answer fitted is in frames->failed. */
int ms_auth_frame(struct ms_auth *auth, uint8_t type, struct ms_bytes payload, struct ms_buf *frames);

/* Appends a whole BYE frame with the code (negative MS_E_*) and the words: for whoever ends a link. */
void ms_auth_bye(int code, const char *text, struct ms_buf *frames);

#endif
