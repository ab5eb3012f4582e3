/* libFuzzer: the init's parsers of what comes in over stdin. The first byte says how the rest is
 * cut into reads, the second whether it is frames or a request without them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "../frames.h"
#include "../request.h"

void broken(void)
{
    abort();
}

static volatile size_t sink;

static void check_request(const uint8_t *data, size_t length)
{
    uint8_t *blob = malloc(length ? length : 1); /* exact, so that a byte too far is seen */
    struct request request;
    memcpy(blob, data, length);
    if (!request_parse(blob, length, &request)) {
        assert(request.argv[0][0] && request.cwd[0] == '/' && request.deadline_ms > 0);
        for (char **word = request.argv; *word; word++)
            sink += strlen(*word);
        for (char **entry = request.envp; *entry; entry++)
            sink += strlen(*entry);
        for (size_t i = 0; i < request.script_length; i++)
            sink += request.script[i];
        request_free(&request);
    }
    free(blob);
}

static void check_frames(const uint8_t *data, size_t length, size_t step)
{
    struct frame_reader reader = {0};
    uint8_t *blob = malloc(length ? length : 1);
    size_t used = 0;
    while (length) {
        size_t part = length < step ? length : step, left = part;
        uint8_t *copy = malloc(part);
        const uint8_t *at = copy;
        struct piece piece;
        int got;
        memcpy(copy, data, part);
        while ((got = frame_next(&reader, &at, &left, &piece)) > 0) {
            assert(piece.length <= MAX_TO_INIT && at == piece.data + piece.length);
            if (piece.type == FRAME_REQUEST) {
                memcpy(blob + used, piece.data, piece.length);
                used += piece.length;
            } else if (piece.type == FRAME_REQUEST_END && piece.last) {
                check_request(blob, used);
                used = 0;
            }
        }
        free(copy);
        if (got < 0)
            break;
        assert(left == 0);
        data += part;
        length -= part;
    }
    free(blob);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length < 2)
        return 0;
    if (data[1] & 1)
        check_frames(data + 2, length - 2, (size_t)data[0] + 1);
    else
        check_request(data + 2, length - 2);
    return 0;
}
