/* JSON values whose making fails half-way, in every place: jansson's trees are no Lua memory, so that an error which is raised over them
 * could lose one. The sanitizer sees what is lost, and so does the count of blocks. */
#include "cases.h"

#include <unistd.h>

#include "../../core/base/error.h"
#include "../../core/base/mem.h"
#include "../../core/lua/policy.h"

static const char *const bodies[] = {
    "return c.mine",
    "c.mine.x = { 1, 2, { a = 1, b = {} } } return c.mine",
    "c.mine.x = { 1, 2, { a = type } } return c.mine",
    "c.mine.x = { a = { 1, 2, 0 / 0 } } return c.mine",
    "c.mine.x = '\\255' return c.mine",
    "c.mine['\\255'] = { 1 } return c.mine",
    "c.mine['a\\0'] = { 1 } return c.mine",
    "return { a = { b = { 1, 2, type } } }",
    "return { 1, { 2 }, 3 }",
    "return '{\"a\":'",
    "local v = metasync.json('[1,[2],3]') v[9] = { 1 } return v",
    "local v = metasync.json('[1,[2],3]') v[1] = nil return v",
    "local t = {} t.t = t c.mine.x = t",
    "for _ = 1, 1e9 do c.mine.x = c.mine end",
    "local k = {} for i = 1, 30 do k[i] = metasync.json('{\"a\":[1,2,{}]}').a end c.mine.k = k return c.mine",
    "local a = c.mine.a c.mine.a = nil a.x = 1 c.mine.b = a return c.mine",
    "return metasync.text(c.mine) .. metasync.text(c.mine.a)",
    "for k in metasync.each(c.mine) do c.mine[k] = nil end return c.mine",
    "metasync.json('[' .. ('1,'):rep(300) .. '1]') error('x')",
    "local v = {} for i = 1, 300 do v[i] = {} end c.mine.v = v error({})",
};

static struct ms_rules *load(const char *path, const char *body)
{
    FILE *file = fopen(path, "w");
    CHECK(file, "%s", path);
    fprintf(file, "return { limits = { lua = { incidents = 1000 } }, tables = { j = { type = 'json' } }, resolve = function(c) %s end }", body);
    fclose(file);
    struct ms_rules *rules = NULL;
    int rc = ms_lua_load(path, NULL, NULL, &rules);
    CHECK(rc == 0, "%s: %s", body, ms_fail_message(rc));
    return rules;
}

static void resolve(struct ms_rules *rules, int fail)
{
    struct ms_conflict conflict = {.table = "j", .type = MS_TYPE_BYTES, .reason = MS_CONFLICT_HOST, .key = ms_str("k"),
                                   .mine = ms_str("{\"a\":{\"b\":[1,2,{}]},\"z\":null}"), .theirs = ms_str("{}")};
    struct ms_resolution resolution = {0};
    ms_mem_fail_after(fail);
    ms_rules_resolve(rules, NULL, &conflict, &resolution);
    ms_mem_fail_after(0);
    ms_buf_close(&resolution.value);
}

static void a_value_that_fails_half_way_leaves_nothing_behind(void)
{
    char path[] = "/tmp/metasync-values-XXXXXX";
    CHECK(close(mkstemp(path)) == 0, "%s", path);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        int64_t live = ms_mem_live();
        struct ms_rules *rules = load(path, bodies[i]);
        for (int fail = 1; fail <= 40; fail++) {
            resolve(rules, 0); /* after a failure this one makes a new sandbox */
            resolve(rules, fail);
        }
        CHECK(!ms_lua_quarantined(rules), "%s", bodies[i]);
        ms_rules_unref(rules);
        CHECK(ms_mem_live() == live, "%s: %lld blocks are left", bodies[i], (long long)(ms_mem_live() - live));
    }
    unlink(path);
}

static const struct spec_case cases[] = {
    SPEC_CASE(a_value_that_fails_half_way_leaves_nothing_behind,
              "JSON values that are wrong, too large, or run into a failed allocation leave nothing behind"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
