/* Words one after another: order, wiping, requests for more, and that a forked copy of the process must request. */
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "noise/pv_fork.h"
#include "noise/pv_keystream.h"

#define BYTES 20 /* two and a half 64-bit words */

typedef struct source {
    pv_keystream stream;
    unsigned char *bytes;
    int refills;
} source;

/* Byte j of refill r is 16 r + j + 1. */
static void refill(void *owner) {
    source *s = (source *)owner;
    for (int j = 0; j < BYTES; ++j) s->bytes[j] = (unsigned char)(16 * s->refills + j + 1);
    s->stream.at = s->bytes;
    s->stream.end = s->bytes + BYTES;
    s->stream.birth = *s->stream.forks;
    ++s->refills;
}

static void begin(source *s) {
    s->bytes = buffer(BYTES, 1);
    s->refills = 0;
    s->stream = (pv_keystream){s->bytes, s->bytes, pv_fork_count(), *pv_fork_count(), refill, s};
}

static void order(void) {
    source s;
    begin(&s);
    CHECK(pv_keystream_uint64(&s.stream) == UINT64_C(0x0807060504030201));
    CHECK(pv_keystream_uint32(&s.stream) == 0x0C0B0A09);
    CHECK(pv_keystream_uint64(&s.stream) == UINT64_C(0x14131211100F0E0D));
    CHECK(s.refills == 1);
    for (int j = 0; j < BYTES; ++j) CHECK(s.bytes[j] == 0); /* all read, all overwritten */
    CHECK(pv_keystream_uint32(&s.stream) == 0x14131211);    /* the next refill */
    CHECK(s.refills == 2);
    (void)pv_keystream_uint64(&s.stream);
    (void)pv_keystream_uint32(&s.stream);
    CHECK(s.stream.end - s.stream.at == 4);
    CHECK(pv_keystream_uint64(&s.stream) == UINT64_C(0x2827262524232221)); /* never across the end */
    CHECK(s.refills == 3);
    for (int j = 0; j < 8; ++j) CHECK(s.bytes[j] == 0);
    CHECK(s.bytes[8] != 0);
    free(s.bytes);
}

static void doubles_between_0_and_1(void) {
    source s;
    begin(&s);
    refill(&s);
    memset(s.bytes, 0xFF, BYTES);
    CHECK(pv_keystream_double(&s.stream) == 1.0 - 0x1p-53);
    memset(s.stream.at, 0, 8);
    s.stream.at[1] = 0x07; /* below 2^11: not read */
    CHECK(bits_of(pv_keystream_double(&s.stream)) == 0);
    for (int k = 0; k < 1000; ++k) {
        double x = pv_keystream_double(&s.stream);
        CHECK(x >= 0.0 && x < 1.0);
        digest(x);
    }
    free(s.bytes);
}

static void forked(void) {
    source s;
    begin(&s);
    (void)pv_keystream_uint32(&s.stream);
    CHECK(*pv_fork_count() == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int counted = *pv_fork_count() == 1;
        (void)pv_keystream_uint32(&s.stream);
        _exit(counted && s.refills == 2 ? 7 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(*pv_fork_count() == 0);
    CHECK(pv_keystream_uint32(&s.stream) == 0x08070605);
    CHECK(s.refills == 1);
    free(s.bytes);
}

int main(void) {
    CHECK(pv_fork_watch() == 0);
    order();
    doubles_between_0_and_1();
    forked();
    return finish("keystream");
}
