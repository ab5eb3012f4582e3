#include "request.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 64, MAX_CWD = 4096, MAX_DEADLINE_DIGITS = 12 };

enum section { ARGV, ENV, CWD, DEADLINE, ORDERING, STDIN, SCRIPT, SECTIONS };

static const char *const names[SECTIONS] = {
    [ARGV] = "argv",         [ENV] = "env",     [CWD] = "cwd",      [DEADLINE] = "deadline_ms",
    [ORDERING] = "ordering", [STDIN] = "stdin", [SCRIPT] = "script"};

struct text {
    uint8_t *data;
    size_t length;
    bool present;
};

static bool equals(const struct text *text, const char *word)
{
    return text->length == strlen(word) && memcmp(text->data, word, text->length) == 0;
}

static const char *split_sections(uint8_t *blob, size_t length, struct text *sections)
{
    size_t at = 0;
    while (at < length) {
        size_t window = length - at < MAX_NAME ? length - at : MAX_NAME;
        uint8_t *end = memchr(blob + at, 0, window);
        if (!end)
            return "a section has no name";
        const char *name = (const char *)blob + at;
        at = (size_t)(end - blob) + 1;
        if (length - at < 4)
            return "a section has no length";
        size_t size = (size_t)blob[at] | (size_t)blob[at + 1] << 8 | (size_t)blob[at + 2] << 16 |
                      (size_t)blob[at + 3] << 24;
        at += 4;
        if (length - at < size)
            return "a section is cut short";
        int which = 0;
        while (which < SECTIONS && strcmp(name, names[which]) != 0)
            which++;
        if (which == SECTIONS)
            return "unknown section";
        if (sections[which].present)
            return "a section occurs twice";
        sections[which] = (struct text){blob + at, size, true};
        at += size;
    }
    for (int which = 0; which < SECTIONS; which++)
        if (!sections[which].present && which != SCRIPT)
            return "a section is missing";
    return NULL;
}

/* The NUL-terminated strings of a text, as the vector execve wants. */
static char **strings_of(const struct text *text)
{
    size_t count = 0;
    if (text->length && text->data[text->length - 1] != 0)
        return NULL;
    for (size_t i = 0; i < text->length; i++)
        count += text->data[i] == 0;
    if (count > MAX_STRINGS)
        return NULL;
    char **vector = calloc(count + 1, sizeof *vector);
    if (!vector)
        return NULL;
    char *next = (char *)text->data;
    for (size_t i = 0; i < count; i++) {
        vector[i] = next;
        next += strlen(next) + 1;
    }
    return vector;
}

static bool env_is_valid(char *const *envp)
{
    for (; *envp; envp++) {
        const char *equal = strchr(*envp, '=');
        if (!equal || equal == *envp)
            return false;
    }
    return true;
}

static bool deadline_of(const struct text *text, int64_t *deadline_ms)
{
    if (text->length == 0 || text->length > MAX_DEADLINE_DIGITS)
        return false;
    *deadline_ms = 0;
    for (size_t i = 0; i < text->length; i++) {
        if (text->data[i] < '0' || text->data[i] > '9')
            return false;
        *deadline_ms = *deadline_ms * 10 + (text->data[i] - '0');
    }
    return *deadline_ms > 0;
}

static const char *parse(uint8_t *blob, size_t length, struct request *request)
{
    struct text sections[SECTIONS] = {0};
    const char *wrong = split_sections(blob, length, sections);
    if (wrong)
        return wrong;
    request->argv = strings_of(&sections[ARGV]);
    if (!request->argv || !request->argv[0] || !request->argv[0][0])
        return "argv is malformed";
    request->envp = strings_of(&sections[ENV]);
    if (!request->envp || !env_is_valid(request->envp))
        return "env is malformed";
    const struct text *cwd = &sections[CWD];
    if (cwd->length == 0 || cwd->length >= MAX_CWD || cwd->data[0] != '/' ||
        memchr(cwd->data, 0, cwd->length))
        return "cwd is malformed";
    request->cwd = strndup((const char *)cwd->data, cwd->length);
    if (!request->cwd)
        return "out of memory";
    if (!deadline_of(&sections[DEADLINE], &request->deadline_ms))
        return "deadline_ms is malformed";
    if (equals(&sections[ORDERING], "exact"))
        request->ordering = ORDERING_EXACT;
    else if (!equals(&sections[ORDERING], "arrival"))
        return "ordering is malformed";
    request->stdin_open = equals(&sections[STDIN], "pipe");
    if (!request->stdin_open && !equals(&sections[STDIN], "none"))
        return "stdin is malformed";
    request->has_script = sections[SCRIPT].present;
    request->script = sections[SCRIPT].data;
    request->script_length = sections[SCRIPT].length;
    return NULL;
}

const char *request_parse(uint8_t *blob, size_t length, struct request *request)
{
    *request = (struct request){0};
    const char *wrong = parse(blob, length, request);
    if (wrong)
        request_free(request);
    return wrong;
}

void request_free(struct request *request)
{
    free(request->argv);
    free(request->envp);
    free(request->cwd);
    *request = (struct request){0};
}
