/* See auth.h for the protocol. The secret is used in prove() only, and compared nowhere: what is compared, in constant time,
 * is the peer's proof. */
#include "auth.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "../base/error.h"
#include "../sync/frame.h"

static const char magic[8] = "METASYNC"; /* without its end */
static const char context[] = "metasync-1";

enum { FLAG_SECRET = 1, FLAG_CLIENT = 2 };
enum { AT_NEWEST = 8, AT_OLDEST = 9, AT_FLAGS = 10, AT_NONCE = 12 };

int ms_auth_check_secret(const char *secret)
{
    if (!secret || strlen(secret) >= MS_SECRET_MIN) return 0;
    return ms_fail(MS_E_INVALID, "the secret has %zu bytes, at least %d are needed", strlen(secret), MS_SECRET_MIN);
}

int ms_auth_nonce(uint8_t nonce[MS_AUTH_NONCE])
{
    ssize_t got;
    do got = getrandom(nonce, MS_AUTH_NONCE, 0); /* whole up to 256 bytes, once the system has booted */
    while (got < 0 && errno == EINTR);
    return got == MS_AUTH_NONCE ? 0 : ms_fail(MS_E_IO, "no random bytes: %s", strerror(errno));
}

static void add_frame(struct ms_buf *frames, uint8_t type, struct ms_bytes payload)
{
    uint8_t header[MS_FRAME_HEADER];
    ms_frame_header(header, type, 0, payload, 0);
    ms_buf_add(frames, header, sizeof header);
    ms_buf_add(frames, payload.data, payload.size);
}

void ms_auth_bye(int code, const char *text, struct ms_buf *frames)
{
    struct ms_message message;
    ms_message_init(&message);
    message.code = (uint64_t)-code;
    message.text = ms_str(text);
    struct ms_buf payload;
    ms_buf_init(&payload);
    ms_message_encode(MS_FRAME_BYE, &message, &payload);
    if (payload.failed)
        frames->failed = true;
    else
        add_frame(frames, MS_FRAME_BYE, ms_buf_bytes(&payload));
    ms_buf_close(&payload);
}

int ms_auth_init(struct ms_auth *auth, const char *secret, const char *cluster, bool is_client,
                 const uint8_t nonce[MS_AUTH_NONCE])
{
    *auth = (struct ms_auth){.secret = secret, .cluster = cluster, .is_client = is_client};
    int rc = ms_auth_check_secret(secret);
    if (rc < 0) return rc;
    struct ms_message message;
    ms_message_init(&message);
    if (strlen(cluster) >= sizeof message.cluster)
        return ms_fail(MS_E_INVALID, "the cluster's name has %zu bytes, at most 63 are allowed", strlen(cluster));
    memcpy(message.cluster, cluster, strlen(cluster));
    struct ms_buf greeting;
    ms_buf_init(&greeting);
    ms_buf_add(&greeting, magic, sizeof magic);
    ms_buf_add8(&greeting, MS_AUTH_VERSION);
    ms_buf_add8(&greeting, MS_AUTH_VERSION);
    ms_buf_add8(&greeting, (uint8_t)((secret ? FLAG_SECRET : 0) | (is_client ? FLAG_CLIENT : 0)));
    ms_buf_add8(&greeting, 0);
    ms_buf_add(&greeting, nonce, MS_AUTH_NONCE);
    ms_message_encode(MS_FRAME_GREETING, &message, &greeting);
    bool failed = greeting.failed;
    if (!failed) {
        auth->own_size = greeting.size;
        memcpy(auth->own, greeting.data, greeting.size);
    }
    ms_buf_close(&greeting);
    return failed ? MS_E_MEMORY : 0;
}

void ms_auth_greeting(const struct ms_auth *auth, struct ms_buf *frames)
{
    add_frame(frames, MS_FRAME_GREETING, ms_bytes(auth->own, auth->own_size));
}

/* ---- proofs ----------------------------------------------------------------------------------------------------------- */

static size_t add_greeting(uint8_t *to, const uint8_t *greeting, size_t size)
{
    ms_store32(to, (uint32_t)size);
    memcpy(to + 4, greeting, size);
    return 4 + size;
}

/* The proof of one side: ours or, to compare with what it sent, the peer's. */
static int prove(const struct ms_auth *auth, bool ours, uint8_t proof[MS_AUTH_PROOF])
{
    uint8_t text[sizeof context + 2 * (4 + MS_AUTH_GREETING_MAX)];
    size_t size = sizeof context - 1;
    memcpy(text, context, size);
    text[size++] = auth->is_client == ours ? 'C' : 'L';
    size +=
        ours ? add_greeting(text + size, auth->own, auth->own_size) : add_greeting(text + size, auth->peer, auth->peer_size);
    size +=
        ours ? add_greeting(text + size, auth->peer, auth->peer_size) : add_greeting(text + size, auth->own, auth->own_size);
    unsigned length = 0;
    if (!HMAC(EVP_sha256(), auth->secret, (int)strlen(auth->secret), text, size, proof, &length) || length != MS_AUTH_PROOF)
        return ms_fail(MS_E_MEMORY, "HMAC-SHA256 failed");
    return 0;
}

static int send_proof(const struct ms_auth *auth, struct ms_buf *frames)
{
    uint8_t proof[MS_AUTH_PROOF];
    int rc = prove(auth, true, proof);
    if (rc == 0) add_frame(frames, MS_FRAME_PROOF, ms_bytes(proof, sizeof proof));
    return rc;
}

static int take_proof(struct ms_auth *auth, struct ms_bytes payload, struct ms_buf *frames)
{
    if (!auth->greeted || !auth->secret) return ms_fail(MS_E_FORMAT, "a proof out of turn");
    uint8_t expected[MS_AUTH_PROOF];
    int rc = prove(auth, false, expected);
    if (rc < 0) return rc;
    if (payload.size != MS_AUTH_PROOF || CRYPTO_memcmp(payload.data, expected, MS_AUTH_PROOF) != 0)
        return ms_fail(MS_E_AUTH, "the two nodes have different secrets");
    if (!auth->is_client) rc = send_proof(auth, frames);
    return rc < 0 ? rc : MS_AUTH_DONE;
}

/* ---- greetings -------------------------------------------------------------------------------------------------------- */

static int check_cluster(const struct ms_auth *auth, struct ms_bytes fields)
{
    struct ms_message message;
    ms_message_init(&message);
    int rc = ms_message_decode(MS_FRAME_GREETING, fields, &message);
    if (rc == 0 && strcmp(message.cluster, auth->cluster) != 0)
        rc = ms_fail(MS_E_CLUSTER, "one node is of cluster \"%s\", the other of cluster \"%s\"", auth->cluster,
                     message.cluster);
    ms_message_close(&message);
    return rc;
}

static int check_greeting(const struct ms_auth *auth, const uint8_t *at, size_t size)
{
    if (size < MS_AUTH_GREETING_MIN || size > MS_AUTH_GREETING_MAX || memcmp(at, magic, sizeof magic) != 0)
        return ms_fail(MS_E_FORMAT, "no metasync at the other end");
    if (at[AT_NEWEST] < MS_AUTH_VERSION || at[AT_OLDEST] > MS_AUTH_VERSION)
        return ms_fail(MS_E_VERSION, "one node speaks versions %u to %u of the handshake, the other version %d",
                       at[AT_OLDEST], at[AT_NEWEST], MS_AUTH_VERSION);
    bool is_client = at[AT_FLAGS] & FLAG_CLIENT, has_secret = at[AT_FLAGS] & FLAG_SECRET;
    if (is_client == auth->is_client || memcmp(at + AT_NONCE, auth->own + AT_NONCE, MS_AUTH_NONCE) == 0)
        return ms_fail(MS_E_AUTH, "both ends of the link greet from the same side");
    int rc = check_cluster(auth, ms_bytes(at + MS_AUTH_GREETING_MIN, size - MS_AUTH_GREETING_MIN));
    if (rc < 0) return rc;
    if (has_secret == (auth->secret != NULL)) return 0;
    return ms_fail(MS_E_AUTH, "the %s has a secret, the %s has none",
                   has_secret == is_client ? "connecting node" : "listening node",
                   has_secret == is_client ? "listening node" : "connecting node");
}

static int take_greeting(struct ms_auth *auth, struct ms_bytes payload, struct ms_buf *frames)
{
    if (auth->greeted) return ms_fail(MS_E_FORMAT, "a second greeting");
    int rc = check_greeting(auth, payload.data, payload.size);
    if (rc < 0) return rc;
    auth->greeted = true;
    auth->peer_size = payload.size;
    memcpy(auth->peer, payload.data, payload.size);
    if (!auth->secret) return MS_AUTH_DONE;
    if (auth->is_client) rc = send_proof(auth, frames);
    return rc < 0 ? rc : MS_AUTH_MORE;
}

/* ---- frames ----------------------------------------------------------------------------------------------------------- */

static int take_bye(struct ms_bytes payload)
{
    struct ms_message message;
    ms_message_init(&message);
    int rc = ms_message_decode(MS_FRAME_BYE, payload, &message);
    if (rc == 0) {
        bool known = message.code > 0 && message.code <= (uint64_t)-MS_E_AGAIN;
        rc = ms_fail(known ? -(int)message.code : MS_E_AUTH, "refused by the peer: %.*s", (int)message.text.size,
                     message.text.data ? (const char *)message.text.data : "no reason given");
    }
    ms_message_close(&message);
    return rc;
}

int ms_auth_frame(struct ms_auth *auth, uint8_t type, struct ms_bytes payload, struct ms_buf *frames)
{
    if (auth->done || auth->failed) return ms_fail(MS_E_INVALID, "the handshake is over");
    int rc;
    switch (type) {
    case MS_FRAME_GREETING: rc = take_greeting(auth, payload, frames); break;
    case MS_FRAME_PROOF: rc = take_proof(auth, payload, frames); break;
    case MS_FRAME_BYE: rc = take_bye(payload); break;
    default: rc = ms_fail(MS_E_FORMAT, "a %s frame in the handshake", ms_frame_name(type));
    }
    auth->done = rc == MS_AUTH_DONE;
    auth->failed = rc < 0;
    if (rc < 0 && type != MS_FRAME_BYE) ms_auth_bye(rc, ms_fail_message(rc), frames);
    return rc;
}
